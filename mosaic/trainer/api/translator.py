"""Our errors as the status of a call, and what is no message as an error of ours."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
from google.protobuf.message import DecodeError, Message

from mosaic.connect.failures import abort
from mosaic.errors import InvalidArgumentError, MosaicError


class _Unreadable:
    """Takes the place of a message that could not be read, until a handler can be refused for it.

    gRPC itself would end the call as a surprise and write a traceback into the daemon's log, also
    for strangers without a token.
    """


Given = Message | _Unreadable


class ErrorTranslator(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Turns our own errors into status codes whose text is the error's."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        handler = await continuation(details)
        if handler is None:
            return None
        reader, writer = _lenient(handler.request_deserializer), handler.response_serializer
        if inner := handler.unary_unary:

            async def call(request: Given, context: grpc.aio.ServicerContext) -> Message:
                try:
                    answer: Message = await inner(_readable(request), context)
                    return answer
                # `OSError` too: a full disk or a folder that is gone is an answer, not a fault of
                # the daemon.
                except (MosaicError, OSError) as error:
                    await abort(context, error)

            return grpc.unary_unary_rpc_method_handler(call, reader, writer)
        if source := handler.unary_stream:

            async def stream(
                request: Given, context: grpc.aio.ServicerContext
            ) -> AsyncIterator[Message]:
                try:
                    async for item in source(_readable(request), context):
                        yield item
                except (MosaicError, OSError) as error:
                    await abort(context, error)

            return grpc.unary_stream_rpc_method_handler(stream, reader, writer)
        if sink := handler.stream_unary:

            async def collect(
                requests: AsyncIterator[Given], context: grpc.aio.ServicerContext
            ) -> Message:
                try:
                    answer: Message = await sink(_all_readable(requests), context)
                    return answer
                except (MosaicError, OSError) as error:
                    await abort(context, error)

            return grpc.stream_unary_rpc_method_handler(collect, reader, writer)
        both = handler.stream_stream

        async def converse(
            requests: AsyncIterator[Given], context: grpc.aio.ServicerContext
        ) -> None:
            try:
                answers = both(_all_readable(requests), context)
                if inspect.isawaitable(answers):
                    await answers  # it writes its answers itself
                else:
                    async for item in answers:
                        await context.write(item)
            except (MosaicError, OSError) as error:
                await abort(context, error)

        return grpc.stream_stream_rpc_method_handler(converse, reader, writer)


def _lenient(deserializer: Callable[[bytes], Message]) -> Callable[[bytes], Given]:
    def read(content: bytes) -> Given:
        try:
            return deserializer(content)
        except DecodeError:
            return _Unreadable()

    return read


def _readable(request: Given) -> Message:
    if isinstance(request, _Unreadable):
        raise InvalidArgumentError(
            "the call's message cannot be read; is the client of the same version as the daemon?"
        )
    return request


async def _all_readable(requests: AsyncIterator[Given]) -> AsyncIterator[Message]:
    async for request in requests:
        yield _readable(request)
