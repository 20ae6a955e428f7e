"""Approvals of a running batch as files in its folder, so that another process of the same user can answer them.

    approvals/<id>.json      an open approval, written by the driver; removed once it does not wait any more
    approvals/<id>.answer    the first answer, written by whoever answers; a second one finds it there
    approvals/<id>.receipt   what became of it, written by the driver

The folder is the driver's user's alone, and no agent may work in or around it. An answer names the digest of what was
shown, so that one to something else than what waits is not taken: a file that was changed to look harmless gains
nothing. An answer that is not taken denies and approves nothing, and the approval waits on.
"""

from __future__ import annotations

import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
import anyio.to_thread
from pydantic import Discriminator, Field, ValidationError

from interlock.approval import Approval, Approve, Deny
from interlock.batch.journal import replace_file
from interlock.batch.lock import holder_of
from interlock.errors import JournalFailed, NotOpen
from interlock.model import Model, digest

if TYPE_CHECKING:
    from interlock.batch.driver import Driver

__all__ = ["OpenApproval", "Queue", "Receipt", "serve_queue"]

NAME = "approvals"
LOOK_AGAIN = 0.1
"""Seconds between two looks for answers, and for receipts."""
LONGEST = 4 * 1024 * 1024
_ID = re.compile(r"[A-Za-z0-9-]{1,100}")


class OpenApproval(Model):
    """An approval that waits, and whose it is."""

    queue: Literal[1] = 1
    run: str
    approval: Approval

    @property
    def id(self) -> str:
        """The approval's."""
        return self.approval.id

    def digest(self) -> str:
        """Of everything that is shown."""
        return digest(self.model_dump(mode="json"))


class QueuedAnswer(Model):
    """An answer on its way."""

    queue: Literal[1] = 1
    shown: str
    """The digest of the `OpenApproval` that it answers."""
    decision: Annotated[Approve | Deny, Discriminator("decision")]


class Receipt(Model):
    """What became of an approval."""

    taken: bool
    """Whether an answer from the queue was taken."""
    why: str = ""
    time: float = Field(default_factory=time.time)


# ---- whoever answers -------------------------------------------------------------------------------------------------


class Queue:
    """The queue of a batch, as another process sees it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._batch = Path(folder).expanduser().absolute()
        self._folder = self._batch / NAME

    @property
    def holder(self) -> str | None:
        """What the driver that has the batch says of itself; None if it does not run, and nothing can be answered."""
        return holder_of(self._batch)

    def open(self) -> tuple[OpenApproval, ...]:
        """What waits now, oldest first; nothing, if the batch does not run. Files that cannot be read are left out."""
        if self.holder is None:
            return ()
        found: list[tuple[float, OpenApproval]] = []
        with suppress(OSError):
            for path in self._folder.glob("*.json"):
                with suppress(OSError, ValidationError):
                    waiting = OpenApproval.parse_json(_own_file(path))
                    if f"{waiting.id}.json" == path.name and not path.with_suffix(".answer").exists():
                        found.append((path.stat().st_mtime, waiting))
        return tuple(waiting for _, waiting in sorted(found, key=lambda pair: pair[0]))

    def answer(self, waiting: OpenApproval, decision: Approve | Deny) -> None:
        """Answer what was shown; raises `NotOpen` if it does not wait any more, or somebody else was first.

        The batch takes it within a moment, and `receipt` says what became of it.
        """
        path = self._path(waiting.id, "answer")
        receipt = self.receipt(waiting.id)
        if receipt is not None:
            why = "it was answered" if receipt.taken else receipt.why
            raise NotOpen(waiting.id, f"it does not wait any more: {why}")
        if self.holder is None:
            raise NotOpen(waiting.id, "the batch does not run any more; resumed, it asks anew")
        if not path.with_suffix(".json").exists():
            raise NotOpen(waiting.id, "no approval of this id waits in this batch")
        content = QueuedAnswer(shown=waiting.digest(), decision=decision).to_json().encode()
        new = path.with_suffix(f".{os.getpid()}.new")
        try:
            replace_file(new, content, sync=True)
            os.link(new, path)
        except FileExistsError:
            raise NotOpen(waiting.id, "somebody else has answered it") from None
        except OSError as error:
            raise JournalFailed(str(self._batch), f"{NAME}/{path.name}", error.strerror or str(error)) from error
        finally:
            new.unlink(missing_ok=True)

    def receipt(self, approval_id: str) -> Receipt | None:
        """What became of it; None while that is open."""
        with suppress(OSError, ValidationError):
            return Receipt.parse_json(_own_file(self._path(approval_id, "receipt")))
        return None

    async def taken(self, approval_id: str, *, seconds: float = 10.0) -> Receipt:
        """Wait for the receipt of an answer; one that does not come is a `Receipt` too, which says so."""
        with anyio.move_on_after(seconds):
            while self.holder is not None:
                if (receipt := self.receipt(approval_id)) is not None:
                    return receipt
                await anyio.sleep(LOOK_AGAIN)
        return self.receipt(approval_id) or Receipt(taken=False, why="the batch did not say that it took the answer")

    def _path(self, approval_id: str, kind: str) -> Path:
        if not _ID.fullmatch(approval_id):
            raise NotOpen(approval_id, "this is no id of an approval")
        return self._folder / f"{approval_id}.{kind}"


def _own_file(path: Path) -> bytes:
    """A file that we alone can have written; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise OSError(0, "it is no file that this user alone can write", str(path))
        content = file.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise OSError(0, "it is too large", str(path))
    return content


# ---- the driver ------------------------------------------------------------------------------------------------------


async def serve_queue(driver: Driver) -> None:
    """Publish what waits and take answers, until the batch is over; raises `JournalFailed`."""
    serving = _Serving(driver, driver.store.folder / NAME)
    try:
        serving.begin()
        while not driver.finished.is_set():
            await serving.look()
            with anyio.move_on_after(LOOK_AGAIN):
                await driver.finished.wait()
        await serving.look()
    except OSError as error:
        raise JournalFailed(str(driver.store.folder), NAME, error.strerror or str(error)) from error


class _Serving:
    """The driver's side of the queue."""

    def __init__(self, driver: Driver, folder: Path) -> None:
        self._driver = driver
        self._folder = folder
        self._published: dict[str, OpenApproval] = {}

    def begin(self) -> None:
        """Have an empty folder: what an earlier driver left open waits no more. Raises OSError."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        found = self._folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise OSError(0, "it is no folder that this user alone can use", str(self._folder))
        for path in (*self._folder.glob("*.json"), *self._folder.glob("*.answer")):
            path.unlink(missing_ok=True)

    def _waiting(self) -> dict[str, OpenApproval]:
        return {one.id: OpenApproval(run=run, approval=one) for run, one in self._driver.people.by_run()}

    async def look(self) -> None:
        """Publish, withdraw, and take answers; raises OSError."""
        waiting = self._waiting()
        for gone in self._published.keys() - waiting.keys():
            self._over(gone, Receipt(taken=False, why="it was answered elsewhere, ran out of time, or was withdrawn"))
        for approval_id, approval in waiting.items():
            if approval_id not in self._published:
                self._published[approval_id] = approval
                path = self._folder / f"{approval_id}.json"
                await anyio.to_thread.run_sync(replace_file, path, approval.to_json().encode())
            else:
                await self._take(approval)

    async def _take(self, approval: OpenApproval) -> None:
        path = self._folder / f"{approval.id}.answer"
        if not path.exists():
            return
        problem = await self._answered(approval, path)
        if problem is None:
            self._over(approval.id, Receipt(taken=True))
        elif approval.id in self._waiting():
            path.unlink(missing_ok=True)  # it waits on, for an answer that is one
        else:
            self._over(approval.id, Receipt(taken=False, why=problem))

    async def _answered(self, approval: OpenApproval, path: Path) -> str | None:
        """Hand an answer on; gives why it was not taken."""
        try:
            answer = QueuedAnswer.parse_json(_own_file(path))
        except (OSError, ValidationError) as error:
            return f"the answer cannot be used: {error}"
        if answer.shown != approval.digest():
            return "what was answered is not what waits"
        try:
            await self._driver.people.respond(approval.id, answer.decision)
        except NotOpen as error:
            return error.why
        return None

    def _over(self, approval_id: str, receipt: Receipt) -> None:
        self._published.pop(approval_id, None)
        replace_file(self._folder / f"{approval_id}.receipt", receipt.to_json().encode())
        for kind in ("json", "answer"):
            (self._folder / f"{approval_id}.{kind}").unlink(missing_ok=True)
