"""The approvals and questions that are open, and the errors of answering what is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio

from interlock.errors import NotOpen

__all__ = ["Docket", "Resolution"]

T = TypeVar("T")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Resolution(Generic[A]):
    """An answer and who gave it."""

    answer: A
    by: str


@dataclass(slots=True)
class _Case(Generic[T, A]):
    subject: T
    resolved: anyio.Event = field(default_factory=anyio.Event)
    resolution: Resolution[A] | None = None


class Docket(Generic[T, A]):
    """Open cases by id. Each is answered once; the first answer wins."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._open: dict[str, _Case[T, A]] = {}
        self._closed: set[str] = set()

    @property
    def open(self) -> tuple[T, ...]:
        """What waits for an answer, oldest first."""
        return tuple(case.subject for case in self._open.values())

    def enter(self, case_id: str, subject: T) -> None:
        """Open a case."""
        self._open[case_id] = _Case(subject)

    def answer(self, case_id: str, answer: A, by: str) -> None:
        """Answer a case; raises `NotOpen` where there is none of that id or it was answered before."""
        case = self._open.get(case_id)
        if case is None or case.resolution is not None:
            known = case is not None or case_id in self._closed
            raise NotOpen(case_id, f"this {self._noun} is no longer open" if known else f"no such {self._noun}")
        case.resolution = Resolution(answer, by)
        case.resolved.set()

    def offer(self, case_id: str, answer: A, by: str) -> None:
        """Answer a case unless somebody already did."""
        case = self._open.get(case_id)
        if case is not None and case.resolution is None:
            self.answer(case_id, answer, by)

    async def wait(self, case_id: str) -> Resolution[A]:
        """The answer, once there is one."""
        case = self._open[case_id]
        await case.resolved.wait()
        if case.resolution is None:
            message = f"{self._noun} {case_id} woke without an answer"
            raise RuntimeError(message)
        return case.resolution

    def leave(self, case_id: str) -> None:
        """The case is over, answered or withdrawn."""
        self._open.pop(case_id, None)
        self._closed.add(case_id)
