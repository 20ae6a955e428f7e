"""What goes to a worker beside the spec of an attempt, and what a worker says of itself: UTF-8 JSON, as the spec is.

The scheduler carries bytes and a line of Python of the standard library alone: it needs nothing of ours, and a worker
that has another version of it, or none, is found out before it is given anything to do.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from interlock.batch.options import ChainNames
from interlock.model import Model
from interlock_adapters.dask.artifacts import Artifacts

__all__ = ["CALL", "Greeting", "Hello", "Job", "own_version"]

CALL = "__import__('interlock_adapters.dask.worker', fromlist=['worker']).{name}(*given)"
"""What `eval`, which every Python has, does on a worker."""


class Job(Model):
    """How a worker makes an attempt."""

    job: Literal[1] = 1
    topic: str
    """Where its news go."""
    artifacts: Artifacts | None = None


class Greeting(Model):
    """What a worker is asked before it is given attempts."""

    greeting: Literal[1] = 1
    version: str
    """Of the driver's Interlock."""
    chain: ChainNames | None = None
    chain_digest: str | None = None


class Hello(Model):
    """What it answers."""

    hello: Literal[1] = 1
    version: str
    host: str
    pid: int
    refusal: str | None = None
    """Why it must not be given attempts."""


def own_version() -> str:
    """The version of this Interlock."""
    try:
        return version("interlock")
    except PackageNotFoundError:
        return "unknown"
