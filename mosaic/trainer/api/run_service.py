"""The gRPC handlers of runs: submit, look up, list, change. Thin: they translate and ask."""

import asyncio
import json
from dataclasses import replace

from grpc.aio import ServicerContext

from mosaic.connect.failures import problem_messages
from mosaic.errors import InvalidArgumentError, InvalidConfigError
from mosaic.runs import eventlog
from mosaic.trainer.api.resolve import RunMessages, resolve_run
from mosaic.trainer.core.folding import evolve
from mosaic.trainer.core.states import Run
from mosaic.trainer.core.stimuli import (
    AnnotateRequested,
    CancelRequested,
    CheckpointRequested,
    PauseRequested,
    RestoreRequested,
    ResumeRequested,
    Stimulus,
)
from mosaic.trainer.loop import intake
from mosaic.trainer.loop.engine import Engine
from mosaic.trainer.storage import history
from mosaic.trainer.storage.paging import SORTABLE, Query
from mosaic.trainer.storage.registry import Page
from mosaic.wire import trainer_pb2 as pb

_MAX_PAGE = 500
# A day. More is a mistake, and would keep a cancelled run alive practically for ever.
_MAX_GRACE_S = 86_400.0
_LONGEST_REASON = 300
_MAX_KEY = 200


class RunHandlers:
    """Everything a client may ask about runs, except their files and streams."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._messages = RunMessages(engine)

    async def ValidateRun(
        self, request: pb.SubmitRunRequest, _: ServicerContext
    ) -> pb.ValidateRunReply:
        try:
            await self._engine.submissions.validate(request.config_json)
        except InvalidConfigError as error:
            return pb.ValidateRunReply(problems=problem_messages(error.problems))
        return pb.ValidateRunReply()

    async def SubmitRun(
        self, request: pb.SubmitRunRequest, _: ServicerContext
    ) -> pb.SubmitRunReply:
        if len(request.idempotency_key) > _MAX_KEY:
            raise InvalidArgumentError(f"an idempotency key has at most {_MAX_KEY} characters")
        parent = request.parent_run_id
        if parent:
            parent = (await resolve_run(self._engine, parent)).run.run_id
        submission = intake.Submission(
            config_json=request.config_json,
            idempotency_key=request.idempotency_key,
            priority=request.priority,
            cold=request.cold,
            parent_run_id=parent,
            parent_step=request.parent_step if request.HasField("parent_step") else None,
        )
        stored, created = await self._engine.submissions.submit(submission)
        return pb.SubmitRunReply(run=self._messages.of(stored), created=created)

    async def GetRun(self, request: pb.GetRunRequest, _: ServicerContext) -> pb.Run:
        return self._messages.of(await resolve_run(self._engine, request.run_id))

    async def ListRuns(self, request: pb.ListRunsRequest, _: ServicerContext) -> pb.ListRunsReply:
        sort = request.sort or "-created_at"
        if sort.lstrip("-") not in SORTABLE:
            raise InvalidArgumentError(
                f"runs cannot be sorted by {sort!r}; allowed: {', '.join(SORTABLE)}"
            )
        query = Query(
            page_size=min(request.page_size or 50, _MAX_PAGE),
            page_token=request.page_token,
            states=tuple(request.states),
            outcomes=tuple(request.outcomes),
            worker=request.worker,
            algo=request.algo,
            env_id=request.env_id,
            text=request.text,
            sort=sort,
            deleted=request.deleted,
        )
        page = await asyncio.to_thread(self._newest_page, query)
        return pb.ListRunsReply(
            runs=[self._messages.of(self._engine.live.fresh(stored)) for stored in page.runs],
            next_page_token=page.next_page_token,
            total=page.total,
        )

    def _newest_page(self, query: Query) -> Page:
        # What was submitted before this call belongs in the list, also if it is still being
        # written.
        self._engine.registry.flush()
        return self._engine.registry.page(query)

    async def UpdateRun(self, request: pb.UpdateRunRequest, _: ServicerContext) -> pb.Run:
        change = AnnotateRequested(
            run_name=request.run_name[:200] if request.HasField("run_name") else None,
            notes=request.notes[:20_000] if request.HasField("notes") else None,
            tags=tuple(tag[:100] for tag in request.tags[:50]) if request.set_tags else None,
            priority=request.priority if request.HasField("priority") else None,
        )
        return await self._apply(request.run_id, change)

    async def CancelRun(self, request: pb.CancelRunRequest, _: ServicerContext) -> pb.Run:
        usual = self._engine.settings.grace_s
        grace = request.grace_s if request.HasField("grace_s") else usual
        grace = min(max(0.0, grace), _MAX_GRACE_S)
        order = CancelRequested(grace)
        if request.reason:
            order = replace(order, reason=request.reason[:_LONGEST_REASON])
        return await self._apply(request.run_id, order)

    async def PauseRun(self, request: pb.PauseRunRequest, _: ServicerContext) -> pb.Run:
        return await self._apply(request.run_id, PauseRequested(request.release))

    async def ResumeRun(self, request: pb.ResumeRunRequest, _: ServicerContext) -> pb.Run:
        return await self._apply(request.run_id, ResumeRequested())

    async def CheckpointRun(self, request: pb.CheckpointRunRequest, _: ServicerContext) -> pb.Run:
        return await self._apply(request.run_id, CheckpointRequested())

    async def DeleteRun(
        self, request: pb.DeleteRunRequest, _: ServicerContext
    ) -> pb.DeleteRunReply:
        stored = await resolve_run(self._engine, request.run_id)
        await self._engine.trash.delete(stored.run.run_id, request.purge)
        return pb.DeleteRunReply()

    async def RestoreRun(self, request: pb.RestoreRunRequest, _: ServicerContext) -> pb.Run:
        return await self._apply(request.run_id, RestoreRequested())

    async def ListRunEvents(
        self, request: pb.ListRunEventsRequest, _: ServicerContext
    ) -> pb.ListRunEventsReply:
        stored = await resolve_run(self._engine, request.run_id)
        lines = await asyncio.to_thread(eventlog.read, self._engine.live.run_dir(stored).path)
        run, events = Run(stored.run.run_id), []
        # From the first event on, whatever `after` is: each event is shown with its state.
        for line in lines:
            run = evolve(run, history.from_line(stored.run.run_id, line))
            if line.seq > request.after:
                data = json.dumps(line.data)
                events.append(
                    pb.RunEvent(
                        seq=line.seq, at=line.at, kind=line.kind, state=run.state, data_json=data
                    )
                )
        return pb.ListRunEventsReply(events=events)

    async def _apply(self, run_id: str, stimulus: Stimulus) -> pb.Run:
        stored = await resolve_run(self._engine, run_id)
        return self._messages.of(self._engine.apply(stored.run.run_id, stimulus))
