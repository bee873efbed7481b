"""The application: the door in front, then the pages and the streams."""

from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mosaic.errors import DaemonNotRunningError, MosaicError, RunNotFoundError
from mosaic.web import live
from mosaic.web.access import Door
from mosaic.web.board import Board
from mosaic.web.pages import HERE, Pages
from mosaic.web.relay import Connect

_NEVER_KEPT = {"cache-control": "no-store"}


class Doorman:
    """Asks the door about every request before anything else sees it."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app, self._door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # There is no other kind of connection here; a websocket is not answered at all.
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        refusal = self._door.refusal(scope["method"], scope["path"], Headers(scope=scope))
        if refusal is not None:
            answer = PlainTextResponse(f"{refusal.text}\n", refusal.status, _NEVER_KEPT)
            await answer(scope, receive, self._adding(send))
            return
        await self._app(scope, receive, self._adding(send))

    def _adding(self, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._door.response_headers().items():
                    headers[name] = value
            await send(message)

        return send_with_headers


def make_app(board: Board, connect: Connect, door: Door) -> Starlette:
    """Put the application together.

    Args:
        board: The runs.
        connect: Opens a connection to the daemon.
        door: Decides who may see what.
    """
    pages = Pages(board, connect, door)

    async def enter(request: Request) -> Response:
        session = door.redeem(request.query_params.get("token", ""))
        if session is None:
            text = "this address was used before; open the one that `mosaic web` printed last\n"
            return PlainTextResponse(text, 401, _NEVER_KEPT)
        # A page and not a redirect: after a redirect the browser would still count this as coming
        # from where the link was, and keep the cookie to itself.
        answer = PlainTextResponse("", 200, {**_NEVER_KEPT, "refresh": "0; url=/"})
        answer.set_cookie(door.cookie, session, httponly=True, samesite="strict")
        return answer

    async def icon(_request: Request) -> Response:
        # Browsers ask for it by this name on pages that name none, such as the entrance.
        return FileResponse(HERE / "static" / "icon.svg")

    async def runs_events(_request: Request) -> Response:
        return _events(live.run_list(board, pages.row))

    async def run_events(request: Request) -> Response:
        run_id = request.path_params["run_id"]
        if run_id not in board.runs:
            raise HTTPException(404, f"there is no run {run_id}")
        return _events(live.one_run(board, connect, run_id, pages.head))

    async def frames(request: Request) -> Response:
        run_id = request.path_params["run_id"]
        if run_id not in board.runs:
            raise HTTPException(404, f"there is no run {run_id}")
        kind = f"multipart/x-mixed-replace; boundary={live.FRAME_BOUNDARY}"
        return StreamingResponse(live.frames(connect, run_id), media_type=kind, headers=_NEVER_KEPT)

    async def http_problem(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return pages.refuse(error.status_code, str(error.detail))

    async def mosaic_problem(_request: Request, error: Exception) -> Response:
        return pages.refuse(_status(error), str(error))

    return Starlette(
        routes=[
            Route("/", pages.runs),
            Route("/enter", enter),
            Route("/favicon.ico", icon),
            Route("/events", runs_events),
            Route("/compare", pages.compare),
            Route("/experiments/{name}", pages.experiment),
            Route("/runs/{run_id}", pages.run),
            Route("/runs/{run_id}/events", run_events),
            Route("/runs/{run_id}/frames", frames),
            Route("/runs/{run_id}/episodes", pages.episodes),
            Route("/runs/{run_id}/episodes/{episode:int}", pages.episode),
            Route("/runs/{run_id}/steps/{seq:int}", pages.picture),
            Route("/runs/{run_id}/{command}", pages.command, methods=["POST"]),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        middleware=[Middleware(Doorman, door=door)],
        exception_handlers={HTTPException: http_problem, MosaicError: mosaic_problem},
    )


def _events(content: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(content, media_type="text/event-stream", headers=_NEVER_KEPT)


def _status(error: Exception) -> int:
    if isinstance(error, RunNotFoundError):
        return 404
    return 503 if isinstance(error, DaemonNotRunningError) else 400
