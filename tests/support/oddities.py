"""What a file can be turned into: arbitrary bytes, wrong types, other kinds of file, less of it."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

# Values that fit no field, or only just: what JSON allows and nobody expects.
ODD_VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    2**64,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    -0.0,
    "",
    "\x00",
    "\ud800",
    "\x1b]0;title\x07",
    "../../x",
    "x" * 500,
    [],
    {},
    ["x"],
    {"x": {"x": None}},
    [[[[[[]]]]]],
]
odd_values = st.sampled_from(ODD_VALUES) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)
Change = Callable[[Path], None]


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    # A socket's address is short; its name in its folder always is.
    before = os.getcwd()
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(path.parent)
        try:
            listener.bind(path.name)
        finally:
            os.chdir(before)


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("something")


_KINDS: dict[str, Change] = {
    "nothing": lambda path: None,
    "a folder": _folder,
    "a pipe": _fifo,
    "a socket": _socket,
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to nothing": lambda path: path.symlink_to(path.with_name("nowhere")),
    "a link out": lambda path: path.symlink_to("/etc/hostname"),
    "a device's link": lambda path: path.symlink_to("/dev/zero"),
    "deep nesting": lambda path: _write(path, b"[" * 100_000),
}


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


class Damage:
    """One change to one file, printed in words when it did harm."""

    def __init__(self, what: str, change: Change) -> None:
        self._what = what
        self._change = change

    def __repr__(self) -> str:
        return self._what

    def strike(self, path: Path) -> None:
        """Do it; a file that is not there, or below something that is no folder, is left."""
        if path.parent.is_dir() and not path.parent.is_symlink():
            self._change(path)


def _become(kind: str) -> Damage:
    def change(path: Path) -> None:
        _clear(path)
        _KINDS[kind](path)

    return Damage(f"becomes {kind}", change)


def _hold(content: bytes) -> Damage:
    def change(path: Path) -> None:
        _clear(path)
        path.write_bytes(content)

    return Damage(f"holds {content!r}", change)


def _cut(share: float) -> Damage:
    def change(path: Path) -> None:
        if path.is_file():
            content = path.read_bytes()
            path.write_bytes(content[: int(len(content) * share)])

    return Damage(f"cut to {share:.3f}", change)


def _flip(share: float, byte: int) -> Damage:
    def change(path: Path) -> None:
        if path.is_file() and path.stat().st_size:
            content = bytearray(path.read_bytes())
            content[int((len(content) - 1) * share)] ^= byte
            path.write_bytes(bytes(content))

    return Damage(f"byte at {share:.3f} xor {byte}", change)


def replace_somewhere(document: Any, picks: list[int], value: Any) -> Any:
    """A document with one value replaced; `picks` lead to it."""
    if not picks or not isinstance(document, dict | list) or not document:
        return value
    if isinstance(document, list):
        index = picks[0] % len(document)
        changed = replace_somewhere(document[index], picks[1:], value)
        return [*document[:index], changed, *document[index + 1 :]]
    name = sorted(document)[picks[0] % len(document)]
    return {**document, name: replace_somewhere(document[name], picks[1:], value)}


def _retype(line: int, picks: list[int], value: Any) -> Damage:
    """In a file of JSON lines, or of one document, a value becomes another."""

    def change(path: Path) -> None:
        if not path.is_file():
            return
        content = path.read_bytes().decode(errors="replace")
        for parts in ([content], content.splitlines()):
            index = line % len(parts) if parts else 0
            try:
                document = json.loads(parts[index])
            except (IndexError, ValueError):
                continue
            parts[index] = json.dumps(replace_somewhere(document, picks, value))
            path.write_text("\n".join(parts) + "\n")
            return

    return Damage(f"line {line}, at {picks}: {value!r}", change)


_share = st.floats(0, 1)
damages: st.SearchStrategy[Damage] = (
    st.builds(_become, st.sampled_from(sorted(_KINDS)))
    | st.builds(_hold, st.binary(max_size=64))
    | st.builds(_cut, _share)
    | st.builds(_flip, _share, st.integers(1, 255))
    | st.builds(
        _retype,
        st.integers(0, 20),
        st.lists(st.integers(0, 20), min_size=1, max_size=3),
        odd_values,
    )
)
