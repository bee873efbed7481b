"""The pages: each asks the board or the SDK, and hands plain values to a template."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mosaic import __version__
from mosaic.client.comparing import compare_runs
from mosaic.client.experiments import find_experiment
from mosaic.curves.members import split_member
from mosaic.curves.names import LENGTH, RETURN
from mosaic.errors import FilterError, InvalidArgumentError, MosaicError
from mosaic.presenting import alarms, formatting, run_status
from mosaic.presenting.run_filter import FIELDS, compile_filter
from mosaic.records import RunRecord
from mosaic.web import replays
from mosaic.web.access import Door
from mosaic.web.board import Board
from mosaic.web.charts import Line, bands
from mosaic.web.relay import Connect

if TYPE_CHECKING:
    from mosaic.client import TrainerClient
    from mosaic.statistics.curves import Curve
    from mosaic.statistics.results import Comparison

Answer = TypeVar("Answer")
HERE = Path(__file__).parent
_PAGE = 100
_MOST_EXPERIMENTS = 10
# Comparing reads every curve; more runs than this are an experiment for the command line.
_MOST_COMPARED = 60


@dataclass(frozen=True)
class Action:
    """Something that a button does to a run."""

    name: str
    label: str
    allowed: bool


def make_templates() -> Environment:
    """The templates, with the words that window and pages share."""
    templates = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {
        "version": __version__,
        "status_of": run_status.status_of,
        "title_of": run_status.title_of,
        "one_line": run_status.one_line,
        "alarm_sentence": alarms.sentence,
        "way_back": alarms.way_back,
        "RETURN": RETURN,
        "LENGTH": LENGTH,
    }
    templates.filters |= {
        "number": formatting.number,
        "compact": formatting.compact,
        "duration": formatting.duration,
        "ago": formatting.ago,
        "moment": formatting.moment,
    }
    return templates


class Pages:
    """Handlers of the pages."""

    def __init__(self, board: Board, connect: Connect, door: Door) -> None:
        self._board, self._connect, self._door = board, connect, door
        self._templates = make_templates()

    # ------------------------------------------------------------ fragments

    def row(self, run: RunRecord) -> str:
        """A run as a row of the list."""
        return self._templates.get_template("row.html").render(run=run)

    def head(self, run: RunRecord) -> str:
        """What changes on the page of a run."""
        actions = _actions(run) if self._door.control else ()
        return self._templates.get_template("head.html").render(run=run, actions=actions)

    # ------------------------------------------------------------ pages

    async def runs(self, request: Request) -> Response:
        """All runs, newest first, one page at a time."""
        text = request.query_params.get("text", "").strip()
        page = _whole(request.query_params.get("page", "1"))
        listing = self._board.listing
        try:
            fits = compile_filter(text)
        except FilterError as error:
            raise HTTPException(400, f"{error}; fields: {', '.join(FIELDS)}") from None
        # In a thread: with ten thousand runs a search takes long enough for others to notice.
        found = await run_in_threadpool(listing.page, fits, page, _PAGE)
        experiments = await run_in_threadpool(listing.experiments, _MOST_EXPERIMENTS)
        return self._page(
            "runs.html", found=found, row=self.row, text=text, experiments=experiments
        )

    async def run(self, request: Request) -> Response:
        """One run."""
        run = self._run(request)
        return self._page("run.html", run=run, head=self.head(run))

    async def episodes(self, request: Request) -> Response:
        """The recorded episodes of a run."""
        run = self._run(request)
        found = await self._ask(partial(replays.episodes, run_id=run.run_id))
        return self._page("episodes.html", run=run, episodes=found)

    async def episode(self, request: Request) -> Response:
        """One recorded episode, to be played."""
        run = self._run(request)
        number = int(request.path_params["episode"])
        steps = await self._ask(lambda client: replays.captions(client, run.run_id, number))
        if not steps:
            raise HTTPException(404, f"episode {number} of this run was not recorded")
        cut = len(steps) == replays.MOST_STEPS
        return self._page("episode.html", run=run, episode=number, steps=steps, cut=cut)

    async def picture(self, request: Request) -> Response:
        """The picture of a recorded step."""
        run = self._run(request)
        seq = int(request.path_params["seq"])
        found = await self._ask(lambda client: replays.picture(client, run.run_id, seq))
        if found is None:
            raise HTTPException(404, "this step has no picture")
        # A recorded step never changes; playing an episode twice asks for its pictures once.
        headers = {"cache-control": "private, max-age=3600"}
        return Response(found[0], media_type=found[1], headers=headers)

    async def experiment(self, request: Request) -> Response:
        """An experiment or a sweep: its runs grouped by configuration."""
        name = request.path_params["name"]
        record, _ = await self._ask(lambda client: find_experiment(client, name))
        return await self._comparison(record.run_ids, f"{record.kind.title()} {name}", record)

    async def compare(self, request: Request) -> Response:
        """The chosen runs against each other."""
        chosen = request.query_params.getlist("run")
        if not chosen:
            raise HTTPException(400, "choose the runs to compare in the list first")
        return await self._comparison(chosen, "Comparison", None)

    # ------------------------------------------------------------ commands

    async def command(self, request: Request) -> Response:
        """Pause, resume, save or cancel a run; the door has checked that this is allowed."""
        run = self._run(request)
        name = request.path_params["command"]
        if not any(action.name == name and action.allowed for action in _actions(run)):
            raise HTTPException(409, f"{run_status.title_of(run)} cannot be asked to {name} now")
        await self._ask(lambda client: getattr(client, name)(run.run_id))
        return RedirectResponse(f"/runs/{run.run_id}", 303)

    # ------------------------------------------------------------ helpers

    def refuse(self, status: int, text: str) -> Response:
        """A page that says why there is nothing to see."""
        return self._page("problem.html", status=status, text=text, at=status)

    def _page(self, template: str, at: int = 200, **values: object) -> Response:
        text = self._templates.get_template(template).render(
            problem=self._board.problem, control=self._door.control, **values
        )
        return HTMLResponse(text, at, headers={"cache-control": "no-store"})

    def _run(self, request: Request) -> RunRecord:
        run_id = request.path_params["run_id"]
        run = self._board.runs.get(run_id)
        if run is None:
            raise HTTPException(404, f"there is no run {run_id}; it may have been deleted")
        return run

    async def _ask(self, question: "Callable[[TrainerClient], Answer]") -> Answer:
        """Ask the daemon in a thread; a connection takes a few milliseconds on one machine."""

        def ask() -> Answer:
            with self._connect() as client:
                return question(client)

        return await run_in_threadpool(ask)

    async def _comparison(self, run_ids: Sequence[str], title: str, experiment: object) -> Response:
        if len(run_ids) > _MOST_COMPARED:
            raise HTTPException(
                400,
                f"{len(run_ids)} runs are too many for a page (at most {_MOST_COMPARED}); "
                "use: mosaic compare",
            )

        def compare(client: "TrainerClient") -> tuple["Comparison | None", list[Line], str]:
            try:
                found = compare_runs(client, run_ids)
            except InvalidArgumentError as error:
                # No run has the curve yet: an experiment that has just begun.
                return None, [], str(error)
            return found, bands(_curves(client, found)), ""

        found, lines, reason = await self._ask(compare)
        return self._page(
            "compare.html",
            title=title,
            experiment=experiment,
            found=found,
            lines=lines,
            reason=reason,
            names={
                run_id: run_status.title_with_seed(run) if run else run_id
                for run_id, run in ((one, self._board.runs.get(one)) for one in run_ids)
            },
        )


def _curves(client: "TrainerClient", found: "Comparison") -> "dict[str, list[Curve]]":
    """The curves behind each cell of a comparison."""
    several = len({cell.env_id for cell in found.cells}) > 1
    curves: dict[str, list[Curve]] = {}
    for cell in found.cells:
        name = f"{cell.group} · {cell.env_id}" if several else cell.group
        lines = curves.setdefault(name, [])
        for run in cell.runs:
            run_id, member = split_member(run.run_id)
            tag = found.metric if member is None else member.tag(found.metric)
            try:
                curve = client.curves(run_id, tag)[tag]
            except MosaicError:
                # An evaluation has a score and no curve.
                continue
            lines.append((curve.steps.astype(float), curve.values))
    return curves


def _actions(run: RunRecord) -> tuple[Action, ...]:
    return (
        Action("pause", "Pause", run_status.can_pause(run)),
        Action("resume", "Resume", run_status.can_resume(run)),
        Action("checkpoint", "Save checkpoint", run_status.can_save(run)),
        Action("cancel", "Cancel", run_status.can_cancel(run)),
    )


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 else 1
