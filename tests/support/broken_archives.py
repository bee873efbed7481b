"""Archives that are not what they should be: broken bytes, or sound ones with odd values."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from support.oddities import odd_values, replace_somewhere

Change = Callable[[bytes], bytes]


def _retyped(content: bytes, lines: bool, picks: list[int], value: Any) -> bytes:
    """A document, or one line of many, with another value in it."""
    parts = content.decode().splitlines() if lines else [content.decode()]
    index = picks[0] % len(parts)
    parts[index] = json.dumps(replace_somewhere(json.loads(parts[index]), picks, value))
    return ("\n".join(parts) + "\n").encode()


def _repack(archive: bytes, name: str, picks: list[int], value: Any) -> bytes:
    """An archive in which a value of one document is another one, with its checksums in order."""
    entries = []
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for item in tar:
            file = tar.extractfile(item)
            assert file is not None, "archives hold files only"
            entries.append((item.name, file.read()))
    manifest = json.loads(entries[0][1])
    changed = []
    for path, content in entries[1:]:
        if path.endswith(name):
            lines = content.decode().splitlines()
            index = picks[0] % len(lines) if name == "events.jsonl" else 0
            document = json.loads(lines[index] if name == "events.jsonl" else content)
            text = json.dumps(replace_somewhere(document, picks, value))
            lines = (
                [*lines[:index], text, *lines[index + 1 :]] if name == "events.jsonl" else [text]
            )
            content = ("\n".join(lines) + "\n").encode()
        changed.append((path, content))
        for run in manifest["runs"]:
            for file in run["files"]:
                if path == f"{run['run_id']}/{file['path']}":
                    file |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    if name == "manifest.json":
        manifest = replace_somewhere(manifest, picks, value)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, content in [("manifest.json", json.dumps(manifest).encode()), *changed]:
            info = tarfile.TarInfo(path)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(packed.getvalue().rstrip(b"\0") + bytes(1024))


def _bytes_change(kind: str, at: float, extra: bytes) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        place = int(len(content) * at)
        if kind == "cut":
            return content[:place]
        if kind == "insert":
            return content[:place] + extra + content[place:]
        return content[:place] + extra + content[place + len(extra) :]

    return change


_broken_bytes = st.builds(
    _bytes_change,
    st.sampled_from(["cut", "insert", "overwrite"]),
    st.floats(0, 1),
    st.binary(min_size=1, max_size=8),
)
_broken_values = st.builds(
    lambda name, picks, value: lambda content: _repack(content, name, picks, value),
    st.sampled_from(["manifest.json", "events.jsonl", "config.json"]),
    st.lists(st.integers(0, 20), min_size=1, max_size=4),
    odd_values,
)
broken_archives: st.SearchStrategy[Change] = _broken_bytes | _broken_values
