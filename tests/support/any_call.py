"""Any call: every method of the daemon with any message, or with bytes that are none."""

import json
from typing import Any

import grpc
from google.protobuf.message import Message
from hypothesis import strategies as st

from mosaic.config.paths import Home
from mosaic.connect import auth
from mosaic.connect.channel import open_channel
from mosaic.connect.endpoint import find_endpoint
from mosaic.trainer.api.gate import RUN_ID_HEADER
from mosaic.wire import trainer_pb2 as pb
from support.messages import messages
from support.oddities import odd_values, replace_somewhere

Call = tuple[str, list[Message], bytes | None]
_SERVICE = pb.DESCRIPTOR.services_by_name["Trainer"]
# All but the one that does what it is for: it stops the daemon.
_METHODS = {method.name: method for method in _SERVICE.methods if method.name != "Shutdown"}
_KNOWN_TEXTS = ("@RUN@", "last", "", "stdout", "json", "config.json", "../../x", "*", "return", "-")
_texts = (
    st.sampled_from(_KNOWN_TEXTS)
    | st.text(max_size=12)
    | odd_values.map(lambda value: json.dumps(value))
    | st.builds(
        lambda picks, value: json.dumps(replace_somewhere(_CONFIG, picks, value)),
        st.lists(st.integers(0, 9), min_size=1, max_size=5),
        odd_values,
    )
)
_CONFIG = {
    "run_name": "fuzzed",
    "artifacts": {},
    "environment": {"A": "1"},
    "limits": {"max_wallclock_minutes": 1},
    "resources": {"cpus": {"requested": 1}},
    "metadata": {"worker": {"type": "rogue", "config": {"algo": "short", "extras": {}}}},
}
calls: st.SearchStrategy[list[Call]] = st.lists(
    st.one_of(
        *(
            st.tuples(
                st.just(name),
                st.lists(messages(method.input_type, _texts), min_size=1, max_size=3),
                st.none() | st.binary(max_size=30),
            )
            for name, method in _METHODS.items()
        )
    ),
    min_size=10,
    max_size=20,
)


# How gRPC answers for a handler that raised what nobody foresaw.
SURPRISES = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)


class Caller:
    """Calls any method with any bytes, as a client with the token or as a run's worker."""

    def __init__(self, home: Home, run_id: str) -> None:
        token = home.token.read_bytes().strip()
        self._run_id = run_id
        self._channel = open_channel(find_endpoint(home).address)
        keys = {
            "RegisterWorker": auth.launch_key(token, run_id),
            "ControlStream": auth.session_token(token, run_id),
            "PublishRunSteps": auth.session_token(token, run_id),
            "PublishRunEpisodes": auth.session_token(token, run_id),
        }
        self._metadata = {
            name: (
                ("authorization", f"Bearer {keys.get(name, token.decode())}"),
                (RUN_ID_HEADER, run_id),
            )
            for name in _METHODS
        }

    def close(self) -> None:
        self._channel.close()

    def call(self, name: str, sent: list[Message], raw: bytes | None) -> grpc.RpcError | None:
        """Send, and take a few answers; the refusal if there is one."""
        method = _METHODS[name]
        payload = [raw] if raw is not None else [item.SerializeToString() for item in sent]
        payload = [item.replace(b"@RUN@", self._run_id[:5].encode()) for item in payload]
        kinds = ("stream" if method.client_streaming else "unary",
                 "stream" if method.server_streaming else "unary")  # fmt: skip
        open_call = getattr(self._channel, "_".join(kinds))
        call = open_call(f"/{_SERVICE.full_name}/{name}")
        request: Any = iter(payload) if method.client_streaming else payload[0]
        try:
            answer = call(request, metadata=self._metadata[name], timeout=5.0)
            if method.server_streaming:
                # Some streams stay open as long as the caller; a few answers are enough.
                for _ in zip(range(3), answer, strict=False):
                    pass
                answer.cancel()
        except grpc.RpcError as error:
            return error
        return None
