"""What runs inside of a Dask worker: attempts in its task threads, and what is told to them.

An attempt looks twice a second whether its task is still wanted. Where the driver died, the task was cancelled, or the
worker closes, it is not, and the attempt ends itself with everything that it started. A worker that is killed outright
leaves nothing either: that is the work of the engine's guardian.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from distributed import get_worker
from distributed.core import Status

from interlock.batch.attempt import execute_attempt_async
from interlock.batch.guards import chain_digest, client_of
from interlock.batch.inbox import deliver
from interlock.batch.verdict import Fate, judge
from interlock.batch.wire import AttemptResult, AttemptSpec
from interlock.batch.workspaces import discard
from interlock.errors import InterlockError
from interlock_adapters.dask.artifacts import ArtifactsFailed, take
from interlock_adapters.dask.job import Greeting, Hello, Job, own_version

__all__ = ["greet", "make", "tell"]

LOOK_AGAIN = 0.5
"""Seconds between two looks at the task's state."""
WANTED = frozenset({"executing", "long-running"})
"""States of a task that runs and that somebody waits for (distributed 2026.8, `distributed.worker_state_machine`)."""
OPEN = frozenset({Status.running, Status.paused, Status.closing_gracefully})
MOST_NEWS = 256 * 1024
"""Bytes; larger events are in the record alone, so that no scheduler has to hold them. Approvals are always told."""

Worker = Any
Made = tuple[bytes, dict[str, bytes]]


def greet(greeting: bytes) -> bytes:
    """Say who is here, and whether attempts can be made under that chain."""
    asked = Greeting.parse_json(greeting)
    return (
        Hello(version=own_version(), host=socket.gethostname(), pid=os.getpid(), refusal=_refusal(asked))
        .to_json()
        .encode()
    )


def _refusal(asked: Greeting) -> str | None:
    own = own_version()
    if own != asked.version:
        return f"it has Interlock {own}, and the driver {asked.version}"
    if asked.chain is None:
        return None
    try:
        if chain_digest(asked.chain) != asked.chain_digest:
            return "what the chain's names stand for there is not what it is for the driver"
        client_of(asked.chain)
    except InterlockError as error:
        return f"the chain cannot be built: {error}"
    return None


def tell(key: str, message: bytes) -> bool:
    """Give a message to a running attempt; False if none of that key runs here."""
    return deliver(key, message)


def make(spec: bytes, job: bytes) -> Made:
    """Make one attempt, in a thread of the worker, to its end: its result, and the artifacts for the driver."""
    worker = get_worker()
    return anyio.run(_make, worker, str(worker.get_current_task()), spec, Job.parse_json(job))


async def _make(worker: Worker, key: str, spec: bytes, job: Job) -> Made:
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(_watch, worker, key, scope)
            raw = await execute_attempt_async(spec, partial(_news, worker, job.topic))
            made = await _finish(AttemptSpec.parse_json(spec), AttemptResult.parse_json(raw), job)
            group.cancel_scope.cancel()
            return made
    raise RuntimeError("nobody waits for this attempt any more; it was ended")


async def _watch(worker: Worker, key: str, scope: anyio.CancelScope) -> None:
    """End the attempt once nobody waits for it."""
    while _wanted(worker, key):  # noqa: ASYNC110  # no event of Dask tells it
        await anyio.sleep(LOOK_AGAIN)
    scope.cancel()


def _wanted(worker: Worker, key: str) -> bool:
    task = worker.state.tasks.get(key)
    return task is not None and task.state in WANTED and worker.status in OPEN


def _news(worker: Worker, topic: str, news: bytes) -> None:
    if len(news) > MOST_NEWS and news.startswith(b'{"news":"event"'):
        return
    with suppress(Exception):  # the connection is over, and soon the attempt with it
        worker.log_event(topic, {"news": news})


async def _finish(spec: AttemptSpec, result: AttemptResult, job: Job) -> Made:
    """Take the artifacts, and remove a workspace that the driver cannot reach and nobody wants."""
    files: dict[str, bytes] = {}
    if job.artifacts is not None and result.started:
        try:
            files = await anyio.to_thread.run_sync(take, job.artifacts, spec, result)
        except ArtifactsFailed as error:
            warnings = (*result.outcome.warnings, f"its artifacts were not kept: {error}")
            result = result.model_copy(update={"outcome": result.outcome.model_copy(update={"warnings": warnings})})
    if spec.place.record is None and result.workspace is not None and not _kept(spec, result):
        await discard(spec.place.workspace, result.workspace, spec.request.cwd)
    return result.to_json().encode(), files


def _kept(spec: AttemptSpec, result: AttemptResult) -> bool:
    match getattr(spec.place.workspace, "keep", "all"):
        case "all":
            return True
        case "none":
            return False
        case _:
            return judge(result.outcome, result.problem, now=0.0).fate in {Fate.COUNTED, Fate.BLOCKED}
