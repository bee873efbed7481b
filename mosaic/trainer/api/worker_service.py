"""The gRPC handlers of workers: handshake and control."""

import asyncio
import json
from collections.abc import AsyncIterator

import grpc
from grpc.aio import ServicerContext

from mosaic.connect import auth
from mosaic.trainer.api.gate import caller_run_id
from mosaic.trainer.core.states import State
from mosaic.trainer.core.stimuli import (
    HandshakeRefused,
    WorkerCheckpointed,
    WorkerPaused,
    WorkerRefused,
    WorkerRegistered,
    WorkerResumed,
)
from mosaic.trainer.loop.engine import Engine
from mosaic.wire import trainer_pb2 as pb
from mosaic.workers.capabilities import PROTOCOL_VERSION

_KINDS = {
    "pause": pb.ControlCommand.PAUSE,
    "resume": pb.ControlCommand.RESUME,
    "checkpoint": pb.ControlCommand.CHECKPOINT,
}
_LONGEST_REASON = 1000


class WorkerHandlers:
    """RegisterWorker and ControlStream."""

    def __init__(self, engine: Engine, token: bytes) -> None:
        self._engine = engine
        self._token = token

    async def RegisterWorker(
        self, request: pb.RegisterWorkerRequest, context: grpc.aio.ServicerContext
    ) -> pb.RegisterWorkerReply:
        run_id = await self._own_run(request.run_id, context)
        # A fast worker registers before the loop has read the supervisor's record. Read it now, or
        # the handshake would come to a run that is not spawned yet.
        self._engine.look_at(run_id)
        run = self._engine.live.stored(run_id).run
        if not run.live or run.state is State.FAULT:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"run {run_id} is {run.state}: {run.outcome or run.reason}; no worker may join it",
            )
        if run.state is State.INIT:
            # On another machine the worker may be quicker than its supervisor's record. It asks
            # again; a handshake that is forgotten would never be made up for.
            await context.abort(
                grpc.StatusCode.UNAVAILABLE, f"the start of run {run_id} is not known here yet"
            )
        # A fault, not only a refusal: no later attempt of this worker could succeed.
        if request.protocol_version != PROTOCOL_VERSION:
            text = (
                f"the worker speaks protocol {request.protocol_version}, "
                f"this daemon speaks {PROTOCOL_VERSION}"
            )
            self._engine.apply(run_id, HandshakeRefused(f"handshake refused: {text}"))
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        try:
            capabilities = json.loads(request.capabilities_json or "{}")
        except ValueError as error:
            text = f"the worker's capabilities are not JSON: {error}"
            self._engine.apply(run_id, HandshakeRefused(f"handshake refused: {text}"))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        self._engine.heard_from(run_id)
        self._engine.apply(run_id, WorkerRegistered(capabilities))
        return pb.RegisterWorkerReply(session_token=auth.session_token(self._token, run_id))

    async def ControlStream(
        self, reports: AsyncIterator[pb.ControlReport], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.ControlCommand]:
        run_id = caller_run_id(context)
        commands = self._engine.controls.open(self._engine.live.stored(run_id).run)
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
            self._engine.controls.close(run_id, commands)

    async def _listen(
        self, run_id: str, reports: AsyncIterator[pb.ControlReport], commands: "asyncio.Queue[str]"
    ) -> None:
        """What the worker answers; its end ends the commands too."""
        try:
            async for report in reports:
                self._engine.heard_from(run_id)
                self._take_report(run_id, report)
        finally:
            # Wakes ControlStream, which would wait for the next command of a worker that is gone.
            commands.put_nowait("")

    def _take_report(self, run_id: str, report: pb.ControlReport) -> None:
        match report.status:
            case "paused":
                self._engine.apply(run_id, WorkerPaused())
            case "resumed":
                self._engine.apply(run_id, WorkerResumed())
            case "checkpointed":
                # `checkpoint_saved` comes through the log, which is read four times a second. Read
                # it now, so that the checkpoint is known before its confirmation.
                self._engine.look_at(run_id)
                self._engine.apply(run_id, WorkerCheckpointed())
            case "refused":
                reason = report.detail[:_LONGEST_REASON] or "the worker gave no reason"
                self._engine.apply(run_id, WorkerRefused(reason))

    async def _own_run(self, run_id: str, context: ServicerContext) -> str:
        """The caller's run; a session is good for its own run only."""
        own = caller_run_id(context)
        if run_id != own:
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"this worker may not speak for run {run_id[:40]}",
            )
        return own
