"""Whether a host answers: asked the same way by runs, by the window and by `mosaic doctor`."""

import socket
import threading

import pytest

from mosaic.system.web import unreachable

_EMPTY = b"Content-Length: 0\r\n\r\n"


def _answer_once(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(1 << 16)
        connection.sendall(answer)


@pytest.mark.parametrize(
    ("answer", "answers"),
    [
        (b"HTTP/1.1 200 OK\r\n" + _EMPTY, True),
        (b"HTTP/1.1 404 Not Found\r\n" + _EMPTY, True),
        (b"HTTP/1.1 502 Bad Gateway\r\n" + _EMPTY, False),
        (b"HTTP/1.1 407 Who are you\r\n" + _EMPTY, False),
        (b"this is no web server\r\n\r\n", False),
    ],
)
def test_a_host_answers_or_the_reason_is_said(answer: bytes, answers: bool) -> None:
    """A refusal counts as an answer; a proxy's excuse and noise do not, and nothing is raised."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_answer_once, args=(server, answer), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        reason = unreachable(url, 30.0, {})
    assert (reason == "") is answers
    assert answers or url in reason


def test_a_port_without_a_listener_is_said() -> None:
    """Also for an address that is none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    assert url in unreachable(url, 30.0, {})
    assert unreachable("no address", 30.0, {})
