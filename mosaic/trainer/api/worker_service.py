"""The gRPC handlers of workers: handshake, heartbeat, control."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc

from mosaic.connect import auth
from mosaic.trainer.api.gate import caller_run_id
from mosaic.trainer.core.states import State
from mosaic.trainer.core.stimuli import (
    HandshakeRefused,
    WorkerPaused,
    WorkerRegistered,
    WorkerResumed,
)
from mosaic.trainer.loop.engine import Engine
from mosaic.wire import trainer_pb2 as pb
from mosaic.workers.capabilities import PROTOCOL_VERSION

HEARTBEAT_S = 10
_KINDS = {"pause": pb.ControlCommand.PAUSE, "resume": pb.ControlCommand.RESUME}


class WorkerHandlers:
    """RegisterWorker, Heartbeat and ControlStream."""

    engine: Engine
    token: bytes

    async def RegisterWorker(  # noqa: N802
        self, request: pb.RegisterWorkerRequest, context: grpc.aio.ServicerContext
    ) -> pb.RegisterWorkerReply:
        run_id = await self._own_run(request.run_id, context)
        self.engine.look_at(run_id)
        run = self.engine.stored(run_id).run
        if not run.live or run.state is State.FAULT:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"run {run_id} is {run.state}: {run.outcome or run.reason}; no worker may join it",
            )
        if request.protocol_version != PROTOCOL_VERSION:
            text = (
                f"the worker speaks protocol {request.protocol_version}, "
                f"this daemon speaks {PROTOCOL_VERSION}"
            )
            self.engine.apply(run_id, HandshakeRefused(f"handshake refused: {text}"))
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        try:
            capabilities = json.loads(request.capabilities_json or "{}")
        except ValueError as error:
            text = f"the worker's capabilities are not JSON: {error}"
            self.engine.apply(run_id, HandshakeRefused(f"handshake refused: {text}"))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        self.engine.heard_from(run_id)
        self.engine.apply(run_id, WorkerRegistered(capabilities))
        return pb.RegisterWorkerReply(
            session_token=auth.session_token(self.token, run_id), heartbeat_s=HEARTBEAT_S
        )

    async def Heartbeat(  # noqa: N802
        self, request: pb.HeartbeatRequest, context: grpc.aio.ServicerContext
    ) -> pb.HeartbeatReply:
        run_id = await self._own_run(request.run_id, context)
        self.engine.heard_from(run_id)
        return pb.HeartbeatReply(state=str(self.engine.stored(run_id).run.state))

    async def ControlStream(  # noqa: N802
        self, reports: AsyncIterator[pb.ControlReport], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.ControlCommand]:
        run_id = caller_run_id(context)
        commands = self.engine.effects.open_control(self.engine.stored(run_id).run)
        listening = asyncio.ensure_future(self._listen(run_id, reports, commands))
        try:
            number = 0
            while True:
                command = await commands.get()
                if not command:
                    return
                number += 1
                yield pb.ControlCommand(command_id=number, kind=_KINDS[command])
        finally:
            listening.cancel()
            self.engine.effects.close_control(run_id, commands)

    async def _listen(
        self, run_id: str, reports: AsyncIterator[pb.ControlReport], commands: "asyncio.Queue[str]"
    ) -> None:
        """What the worker answers; its end ends the commands too."""
        try:
            async for report in reports:
                self.engine.heard_from(run_id)
                if report.status == "paused":
                    self.engine.apply(run_id, WorkerPaused())
                elif report.status == "resumed":
                    self.engine.apply(run_id, WorkerResumed())
        finally:
            commands.put_nowait("")

    async def _own_run(self, run_id: str, context: Any) -> str:
        """The caller's run; a session is good for its own run only."""
        own = caller_run_id(context)
        if run_id != own:
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"this worker may not speak for run {run_id[:40]}",
            )
        return own
