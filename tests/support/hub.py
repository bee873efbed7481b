"""A hub for models on this machine: what the Hugging Face Hub answers when a model is uploaded.

The library that uploads is the real one; it finds this hub by the variables of `environment`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

TOKEN = "hf_of_ada"
_USER = {"type": "user", "name": "ada", "fullname": "Ada", "orgs": []}


class Hub(ThreadingHTTPServer):
    """Repositories by name, each with its files."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.repositories: dict[str, dict[str, bytes]] = {}

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to find it and to be known there."""
        return {"HF_ENDPOINT": self.address, "HF_TOKEN": TOKEN}


@contextmanager
def a_hub() -> Iterator[Hub]:
    """A hub without repositories."""
    with Hub() as hub:
        thread = Thread(target=hub.serve_forever)
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


class _Answers(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        if self._refused():
            return
        self._answer(_USER if self.path == "/api/whoami-v2" else None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self._refused():
            return
        what, _, rest = self.path.removeprefix("/api/").partition("/")
        if what == "repos":
            asked = json.loads(body)
            name = f"{asked.get('organization') or _USER['name']}/{asked['name']}"
            self.server.repositories.setdefault(name, {})
            self._answer({"url": f"{self.server.address}/{name}", "id": name})
        elif what == "validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif what == "models" and rest.endswith("/preupload/main"):
            files = json.loads(body)["files"]
            plain = {"uploadMode": "regular", "shouldIgnore": False}
            self._answer({"files": [{"path": file["path"], **plain} for file in files]})
        elif what == "models" and rest.endswith("/commit/main"):
            name = rest.removesuffix("/commit/main")
            self._commit(name, [json.loads(line) for line in body.splitlines()])
        else:
            self._answer(None)

    def _commit(self, name: str, lines: list[dict]) -> None:
        for line in lines:
            if line["key"] == "file":
                content = base64.b64decode(line["value"]["content"])
                self.server.repositories[name][line["value"]["path"]] = content
        where = f"{self.server.address}/{name}/commit/{'0' * 40}"
        self._answer({"success": True, "commitOid": "0" * 40, "commitUrl": where})

    def _refused(self) -> bool:
        if self.headers["Authorization"] == f"Bearer {TOKEN}":
            return False
        self._answer({"error": "Invalid username or password."}, status=401)
        return True

    def _answer(self, content: object, *, status: int = 200) -> None:
        text = json.dumps(content).encode()
        self.send_response(404 if content is None else status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Nothing is printed among the results of the tests."""
