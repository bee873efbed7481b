"""Our errors as the status of a call."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from mosaic.connect.failures import abort
from mosaic.errors import MosaicError


class ErrorTranslator(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Turns our own errors into status codes whose text is the error's."""

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: Any
    ) -> Any:
        handler = await continuation(details)
        if handler is None:
            return None
        inner = handler.unary_unary or handler.stream_unary
        if inner:

            async def call(request: Any, context: grpc.aio.ServicerContext) -> Any:
                try:
                    return await inner(request, context)
                except (MosaicError, OSError) as error:
                    await abort(context, error)

            make = (
                grpc.unary_unary_rpc_method_handler
                if handler.unary_unary
                else grpc.stream_unary_rpc_method_handler
            )
            return make(call, handler.request_deserializer, handler.response_serializer)
        if handler.unary_stream:
            source = handler.unary_stream

            async def stream(request: Any, context: grpc.aio.ServicerContext) -> Any:
                try:
                    async for item in source(request, context):
                        yield item
                except (MosaicError, OSError) as error:
                    await abort(context, error)

            return grpc.unary_stream_rpc_method_handler(
                stream, handler.request_deserializer, handler.response_serializer
            )
        return handler
