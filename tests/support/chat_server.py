"""A model server for tests, over real HTTP: obedient, or as hostile as a script says."""

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Body = dict[str, object]
# What the server answers instead of the truth: a status, or the name of a misbehaviour.
Fault = int | str


def first_action(body: Body) -> str:
    """An answer that keeps the schema of the request: its first action."""
    text = json.dumps(body)
    names = json.loads(text[text.index('"enum": ') + 8 :].partition("]")[0] + "]")
    # Another action for another question, the same for the same: like a model at temperature 0.
    number = int(sha256(json.dumps(body["messages"]).encode()).hexdigest(), 16) % len(names)
    return json.dumps({"reasoning": "because", "action": names[number]})


class ChatServer:
    """Answers chat completions.

    Attributes:
        faults: What goes wrong with the next requests, first one first.
        key: The key that it wants; empty: any.
        answered: How often each request was answered well, by its text.
        seen_keys: The keys that were shown to it.
        support: The ways of constraining answers that it honours.
        hold_after: After so many answers it leaves requests waiting, for a kill at an exact step.
    """

    def __init__(self, answer: Callable[[Body], str] = first_action, key: str = "") -> None:
        self.answer = answer
        self.key = key
        self.faults: list[Fault] = []
        self.answered: Counter[str] = Counter()
        self.bodies: list[Body] = []
        self.seen_keys: set[str] = set()
        self.support = {"schema", "tools"}
        self.lock = threading.Lock()
        self.hanging = threading.Event()
        self.hold_after: int | None = None
        self.url = ""

    def holds(self) -> bool:
        """Whether requests wait now."""
        return self.hold_after is not None and self.answered.total() >= self.hold_after

    def respond(self, body: Body) -> tuple[int, bytes]:
        """The status and the content for a request."""
        ways = {"response_format": "schema", "tools": "tools"}
        for field, way in ways.items():
            if field in body and way not in self.support:
                return 400, b'{"error": {"message": "%s is not supported"}}' % field.encode()
        with self.lock:
            self.answered[json.dumps(body, sort_keys=True)] += 1
            self.bodies.append(body)
        text = self.answer(body)
        message: dict[str, object] = {"role": "assistant", "content": text}
        if "tools" in body:
            call = {"type": "function", "function": {"name": "act", "arguments": text}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        choice = {"message": message, "finish_reason": "stop"}
        return 200, json.dumps({"choices": [choice], "usage": usage}).encode()


class _Quiet(ThreadingHTTPServer):
    """A client that is killed in the middle of a request is what these tests are about."""

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@contextmanager
def chat_server(
    answer: Callable[[Body], str] = first_action, key: str = ""
) -> Iterator[ChatServer]:
    """A server on a free port."""
    server = ChatServer(answer, key)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            given = self.headers.get("authorization", "").removeprefix("Bearer ")
            with server.lock:
                server.seen_keys.add(given)
                fault = server.faults.pop(0) if server.faults else 0
            while server.holds() and not server.hanging.is_set():
                server.hanging.wait(0.01)
            if server.key and given != server.key:
                complaint = json.dumps({"error": {"message": f"the key {given} is wrong"}})
                self._send(401, complaint.encode())
            elif isinstance(fault, int) and fault:
                self._send(fault, b'{"error": {"message": "not now"}}')
            else:
                self._misbehave(str(fault), *server.respond(body))

        def _misbehave(self, fault: str, status: int, content: bytes) -> None:
            match fault:
                case "cut":
                    self.send_response(status)
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content[: len(content) // 2])
                    self.close_connection = True
                case "reset":
                    self.connection.setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
                    )
                    self.close_connection = True
                case "silence":
                    server.hanging.wait(10)
                    self.close_connection = True
                case "garbage":
                    self._send(200, b"\x00\xff<html>busy</html>")
                case "other json":
                    self._send(200, b'{"choices": []}')
                case "huge":
                    self._send(200, b" " * 10_000_000)
                case _:
                    self._send(status, content)

        def _send(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            try:
                self.wfile.write(content)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with _Quiet(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        server.url = f"http://127.0.0.1:{http.server_port}/v1"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.hanging.set()
            http.shutdown()
            thread.join()
