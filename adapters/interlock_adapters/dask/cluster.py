"""A Dask cluster as its client sees it: which workers there are, what runs on them, and the ways there and back.

All of it runs on one asyncio loop, in a thread of its own. Each attempt is given to one worker by name and never to
another: the scheduler cannot run it again by itself, whatever its `allowed-failures` are, so that a run which must not
run twice does not. When that worker goes, the attempt is lost, and the driver decides.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import distributed
from pydantic import ValidationError

from interlock.batch.executor import AttemptLost, ExecutorGone
from interlock.batch.options import ChainNames
from interlock_adapters.dask.job import CALL, Greeting, Hello, Job, own_version

__all__ = ["Cluster", "Node"]

RESOURCE = "agent"
LOOK_AGAIN = 1.0
"""Seconds for which a look at the workers holds; arrivals and departures are told in between."""
GREETING = 30.0
"""Seconds that a worker has to load Interlock and to say who it is."""
MESSAGE = 5.0
"""Seconds that a message has to be delivered."""
CLOSE = 5.0
"""Seconds for taking leave of the scheduler."""
END_WITHIN = 15.0
"""Seconds that an attempt has to end after it was told to; then its task is cancelled, which it notices by itself."""

T = TypeVar("T")
Future = Any
"""A `distributed.Future`, which has no types of its own."""
Made = tuple[bytes, dict[str, bytes]]


@dataclass(slots=True)
class Node:
    """A worker."""

    address: str
    slots: int
    limited: bool
    """Whether the worker itself counts `agent` resources."""
    host: str = ""
    refusal: str | None = None
    checked: set[str | None] = field(default_factory=set[str | None])
    """The digests of chains that it was found to have."""
    keys: set[str] = field(default_factory=set[str])
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def free(self) -> int:
        """How many more attempts it can run."""
        return 0 if self.refusal is not None else self.slots - len(self.keys)


class Cluster:
    """The connection to a scheduler; everything of it is called on one loop."""

    def __init__(self, address: str, topic: str, heard: Callable[[bytes], None]) -> None:
        self._address = address
        self._topic = topic
        self._heard = heard
        self._client: Any = None
        self._nodes: dict[str, Node] = {}
        self._tasks: dict[str, tuple[Node, Future]] = {}
        self._looked = float("-inf")
        self._looking = asyncio.Lock()
        self._watching: asyncio.Future[None] | None = None
        self._lost = asyncio.Event()
        """The connection to the scheduler is over."""

    async def open(self, *, patience: float, security: Any) -> None:
        """Connect; raises whatever keeps it from that."""
        connect: Any = distributed.Client
        self._client = connect(
            self._address,
            asynchronous=True,
            set_as_default=False,
            timeout=patience,
            **({} if security is None else {"security": security}),
        )
        await self._client
        self._client.subscribe_topic(self._topic, self._news)
        self._client.subscribe_topic("all", self._moved)
        self._watching = asyncio.ensure_future(self._watch())
        await self.look()

    async def close(self) -> None:
        """Give everything back; attempts that still run notice it by themselves."""
        if self._watching is not None:
            self._watching.cancel()
        with suppress(Exception):
            await self._client.close(timeout=CLOSE)

    async def _watch(self) -> None:
        """Notice that the connection is lost: the client would try to have another, and knows no task any more then."""
        while self._client.status == "running":  # noqa: ASYNC110  # no event of the client tells it
            await asyncio.sleep(LOOK_AGAIN / 4)
        self._lost.set()
        with suppress(Exception):
            await self._client.close(timeout=CLOSE)

    # ---- workers ---------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The workers, as they were last seen."""
        return tuple(self._nodes.values())

    async def capacity(self) -> int:
        """Attempts that can run at once; raises `ExecutorGone`."""
        await self.look()
        return sum(node.slots for node in self.nodes if node.refusal is None)

    async def look(self) -> None:
        """See which workers there are, and greet new ones; raises `ExecutorGone`."""
        async with self._looking:
            if time.monotonic() < self._looked + LOOK_AGAIN:
                return
            try:
                identity = await self._unless_lost(self._connected().scheduler.identity())
            except OSError as error:
                raise ExecutorGone(f"the scheduler {self._address} does not answer: {error}") from error
            self._looked = time.monotonic()
            await self._take(identity["workers"])

    async def _take(self, workers: dict[str, Any]) -> None:
        offers = any(worker["resources"].get(RESOURCE) for worker in workers.values())
        usable = {
            address: worker
            for address, worker in workers.items()
            if worker["status"] == "running" and (not offers or worker["resources"].get(RESOURCE))
        }
        for address in self._nodes.keys() - workers.keys():
            self._nodes.pop(address).gone.set()
        for address, node in self._nodes.items():
            node.slots = _slots(usable[address]) if address in usable else 0
        new = [
            Node(address, _slots(worker), limited=offers)
            for address, worker in usable.items()
            if address not in self._nodes
        ]
        await asyncio.gather(*(self._greet(node, None, None) for node in new))
        self._nodes |= {node.address: node for node in new}

    async def _greet(self, node: Node, chain: ChainNames | None, digest: str | None) -> None:
        """Find out whether a worker can be given attempts under a chain; what speaks against it is its `refusal`."""
        if node.refusal is not None or digest in node.checked:
            return
        greeting = Greeting(version=own_version(), chain=chain, chain_digest=digest)
        try:
            hello = Hello.parse_json(await self._call(node, GREETING, "greet", greeting.to_json().encode()))
            node.host, node.refusal = hello.host, hello.refusal
        except (ValidationError, ImportError) as error:
            node.refusal = f"it has no Interlock of this version: {error}"
        except Exception as error:  # noqa: BLE001  # whatever it raises, nothing is given to it
            node.refusal = f"it does not answer: {error!r}"
        node.checked.add(digest)

    def _moved(self, event: tuple[float, Any]) -> None:
        """A worker came or went."""
        message = cast("dict[str, Any]", event[1]) if isinstance(event[1], dict) else {}
        action, address = message.get("action"), message.get("worker")
        if action == "add-worker":
            self._looked = float("-inf")
        elif action == "remove-worker" and (node := self._nodes.pop(str(address), None)) is not None:
            node.gone.set()

    # ---- attempts --------------------------------------------------------------------------------------------------

    async def execute(self, spec: bytes, key: str, job: Job, chain: ChainNames | None, digest: str | None) -> Made:
        """Have an attempt made; raises `AttemptLost` and `ExecutorGone`."""
        node = await self._place(key, chain, digest)
        try:
            future = self._connected().submit(
                eval,
                CALL.format(name="make"),
                {"given": (spec, job.to_json().encode())},
                key=f"interlock-{job.topic}-{key}",
                pure=False,
                retries=0,
                workers=[node.address],
                allow_other_workers=False,
                resources={RESOURCE: 1} if node.limited else None,
            )
            self._tasks[key] = node, future
            return await self._result(node, future)
        finally:
            node.keys.discard(key)
            self._tasks.pop(key, None)

    async def _place(self, key: str, chain: ChainNames | None, digest: str | None) -> Node:
        """The worker with the most free slots that can build the chain; waits until there is one."""
        while True:
            await self.look()
            node = max(self.nodes, key=lambda node: node.free, default=None)
            if node is not None and node.free > 0:
                node.keys.add(key)
                await self._greet(node, chain, digest)
                if node.refusal is None and not node.gone.is_set():
                    return node
                node.keys.discard(key)
            elif self._nodes and all(node.refusal is not None for node in self.nodes):
                raise ExecutorGone("no worker can make attempts: " + "; ".join(self.refusals()))
            else:
                await asyncio.sleep(LOOK_AGAIN / 4)

    def refusals(self) -> list[str]:
        """Why workers are given nothing."""
        return [f"{node.address}: {node.refusal}" for node in self.nodes if node.refusal is not None]

    async def _result(self, node: Node, future: Future) -> Made:
        result, gone = asyncio.ensure_future(_gathered(future)), asyncio.ensure_future(node.gone.wait())
        try:
            await asyncio.wait({result, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise AttemptLost(f"the worker {node.address} is gone")
            found = result.result()
        finally:
            for task in (result, gone):
                task.cancel()
            with suppress(Exception):
                future.release()
        if isinstance(found, BaseException):
            self._connected()
            raise AttemptLost(f"on the worker {node.address}: {found!r}") from found
        return found

    async def send(self, key: str, message: bytes) -> bool:
        """Deliver a message to a running attempt."""
        found = self._tasks.get(key)
        if found is None:
            return False
        try:
            return bool(await self._call(found[0], MESSAGE, "tell", key, message))
        except Exception:  # noqa: BLE001  # whatever keeps it from being delivered
            return False

    async def end(self, key: str, message: bytes) -> None:
        """See to it that an attempt ends: tell it, wait, and at last cancel its task."""
        found = self._tasks.get(key)
        if found is None:
            return
        _, future = found
        if await self.send(key, message):
            with suppress(Exception):
                await asyncio.wait_for(asyncio.shield(_gathered(future)), END_WITHIN)
        with suppress(Exception):
            await future.cancel(force=True, reason="cancelled by the batch")

    # ---- the connection --------------------------------------------------------------------------------------------

    def _connected(self) -> Any:
        if self._lost.is_set() or self._client.status != "running":
            raise ExecutorGone(f"the connection to the scheduler {self._address} is lost")
        return self._client

    async def _unless_lost(self, asked: Coroutine[Any, Any, T]) -> T:
        """What comes of it; raises `ExecutorGone` once the connection is lost."""
        answer, lost = asyncio.ensure_future(asked), asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait({answer, lost}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                self._connected()
            return await answer
        finally:
            answer.cancel()
            lost.cancel()

    async def _call(self, node: Node, seconds: float, name: str, *given: Any) -> Any:
        """Call a function of ours in a worker's process; raises what it raises, and TimeoutError."""
        call = self._connected().run(eval, CALL.format(name=name), {"given": given}, workers=[node.address])
        return (await self._unless_lost(asyncio.wait_for(call, seconds)))[node.address]

    def _news(self, event: tuple[float, Any]) -> None:
        message = cast("dict[str, Any]", event[1]) if isinstance(event[1], dict) else {}
        if isinstance(news := message.get("news"), bytes):
            self._heard(news)


def _slots(worker: dict[str, Any]) -> int:
    """An attempt takes a thread, and an `agent` where the worker counts them."""
    agents = worker["resources"].get(RESOURCE)
    return int(worker["nthreads"] if agents is None else min(agents, worker["nthreads"]))


async def _gathered(future: Future) -> Made | BaseException:
    """The result of a task, or the exception that it raised; no cancellation of a task is one of ours."""
    try:
        return cast("Made", await future)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001  # concurrent.futures.CancelledError among them
        return error
