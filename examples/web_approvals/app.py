"""The server of the page: its state as JSON, runs that are started and ended, approvals that are answered."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from interlock import Client, NotOpen, decision_adapter
from interlock_adapters.guards import PushGuard
from web_approvals.agents import Agent
from web_approvals.board import Board
from web_approvals.door import Door

FILES = Path(__file__).parent / "page"
DECISION = decision_adapter()


class Start(BaseModel):
    """What the page sends to begin a run."""

    model_config = ConfigDict(extra="forbid")
    agent: str
    prompt: str


def make_app(agents: Sequence[Agent], *, origin: str, token: str) -> Starlette:
    """The application; it must be served at `origin` alone. When it ends, so do all its runs."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with Client(interceptors=[PushGuard()]) as client, anyio.create_task_group() as tasks:
            app.state.board = Board(agents, client, tasks)
            yield
            tasks.cancel_scope.cancel()

    return Starlette(
        routes=[
            Route("/", page),
            Route("/page.js", page),
            Route("/page.css", page),
            Route("/state", state),
            Route("/runs", start, methods=["POST"]),
            Route("/runs/{number:int}/cancel", cancel, methods=["POST"]),
            Route("/approvals/{id}", answer, methods=["POST"]),
        ],
        middleware=[Middleware(Door, origin=origin, token=token)],
        lifespan=lifespan,
    )


async def page(request: Request) -> Response:
    return FileResponse(FILES / (request.url.path[1:] or "page.html"))


async def state(request: Request) -> Response:
    return JSONResponse(board(request).picture())


async def start(request: Request) -> Response:
    try:
        wanted = Start.model_validate_json(await request.body())
        return JSONResponse({"number": board(request).start(wanted.agent, wanted.prompt)})
    except (ValidationError, KeyError) as error:
        return PlainTextResponse(str(error), 422)


async def cancel(request: Request) -> Response:
    try:
        await board(request).cancel(request.path_params["number"])
    except IndexError:
        return PlainTextResponse("there is no such run", 404)
    return Response(status_code=204)


async def answer(request: Request) -> Response:
    """A decision as JSON. One that cannot be read answers nothing: the approval stays open."""
    try:
        board(request).answer(request.path_params["id"], DECISION.validate_json(await request.body()))
    except ValidationError as error:
        return PlainTextResponse(str(error), 422)
    except NotOpen as gone:
        return PlainTextResponse(str(gone), 409)
    return Response(status_code=204)


def board(request: Request) -> Board:
    found = request.app.state.board
    if not isinstance(found, Board):
        raise TypeError("the application has not started")
    return found
