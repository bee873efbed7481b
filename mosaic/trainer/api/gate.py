"""Access control: every call is checked before its handler is reached."""

from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
from grpc.aio import ServicerContext

from mosaic.connect import auth
from mosaic.runs.ids import is_run_id

RUN_ID_HEADER = "mosaic-run-id"
# Open, because with it a client makes the daemon prove itself before it shows its token.
_OPEN = frozenset({"GetHealth"})
# Workers never get the home's token. Their keys are derived from it for one run. The launch key,
# which is in their environment, opens the handshake, whose reply is the session's token, and what
# an agent on another machine needs to bring and fetch the files of this one run.
_LAUNCH = frozenset({"RegisterWorker", "AgentTurn", "AgentFetch", "AgentFrames"})
_SESSION = frozenset({"ControlStream", "PublishRunSteps", "PublishRunEpisodes"})


class Gate(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Checks the token, launch key or session that a call needs."""

    def __init__(self, token: bytes) -> None:
        self._token = token

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        handler = await continuation(details)
        # None is a method that does not exist; gRPC answers that itself.
        if handler is None or self._may_pass(details):
            return handler
        return _refusing(handler)

    def _may_pass(self, details: grpc.HandlerCallDetails) -> bool:
        method = details.method.rsplit("/", 1)[-1]
        if method in _OPEN:
            return True
        headers = dict(details.invocation_metadata)
        given = str(headers.get("authorization", "")).removeprefix("Bearer ")
        run_id = str(headers.get(RUN_ID_HEADER, ""))
        if method in _LAUNCH:
            return is_run_id(run_id) and auth.matches(auth.launch_key(self._token, run_id), given)
        if method in _SESSION:
            expected = auth.session_token(self._token, run_id)
            return is_run_id(run_id) and auth.matches(expected, given)
        return auth.matches(self._token, given)


def caller_run_id(context: grpc.aio.ServicerContext) -> str:
    """The run whose worker calls; the gate has checked that it may speak for it."""
    return str(dict(context.invocation_metadata()).get(RUN_ID_HEADER, ""))


def _refusing(handler: grpc.RpcMethodHandler) -> grpc.RpcMethodHandler:
    """A handler of the same shape that refuses every call.

    The interceptor may not simply answer: gRPC calls what it returns as the method it asked for,
    streams included.
    """

    async def refuse(_: ServicerContext, context: grpc.aio.ServicerContext) -> None:
        await context.abort(
            grpc.StatusCode.UNAUTHENTICATED,
            "the token is missing or invalid; clients read it from the home (MOSAIC_HOME)",
        )

    async def refuse_stream(
        _: ServicerContext, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[None]:
        await refuse(_, context)
        yield  # a generator, so that the call has the streaming shape

    streaming = handler.response_streaming
    make = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[(handler.request_streaming, streaming)]
    return make(
        refuse_stream if streaming else refuse,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )
