"""A host that dies with a run open leaves nothing of it, however it dies."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

WITHIN = 2.0

HOST = """
import sys
import anyio
from interlock import Client, Request

async def main():
    request = Request.model_validate_json(sys.argv[1])
    async with Client(state=sys.argv[2]).stream(request) as run:
        if {leaves!r} != "pass":
            await anyio.to_thread.run_sync(sys.stdin.readline)
            {leaves}
        async for event in run:
            pass

anyio.run(main, backend=sys.argv[3])
"""


@contextmanager
def host(bench: Any, request: Any, backend: str, leaves: str = "pass") -> Iterator[subprocess.Popen[bytes]]:
    """A process with an open run; it leaves by itself, once it is told to, where `leaves` says how."""
    argv = [sys.executable, "-c", HOST.format(leaves=leaves), request.model_dump_json(), str(bench.state), backend]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stderr):
            assert stream
            stream.close()


def nothing_lives(bench: Any) -> bool:
    end = time.monotonic() + WITHIN
    while bench.survivors() and time.monotonic() < end:
        time.sleep(0.02)
    return not bench.survivors()


@pytest.fixture
def request_(bench: Any) -> Any:
    """A run whose agent sleeps for ever, as does a command in a session of its own."""
    command = f"setsid sleep 600 & echo $$ > {bench.fifo}; sleep 600"
    return bench.request([{"ignore_term": True}, {"tool": "Bash", "input": {"command": command}}])


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV], ids=lambda number: number.name)
@pytest.mark.behaviour("process:host-death")
def test_a_host_that_dies_by_a_signal_takes_its_run_along(
    bench: Any, request_: Any, backend: str, number: signal.Signals
) -> None:
    with bench.listen() as heard, host(bench, request_, backend) as process:
        heard.pid_within(20)
        assert len(bench.survivors()) >= 3
        process.send_signal(number)
        process.wait(5)
        assert nothing_lives(bench)
    remove_leftovers(bench)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("leaves", ["sys.exit(3)", "raise KeyboardInterrupt", "__import__('os')._exit(3)"])
@pytest.mark.behaviour("process:host-death")
def test_a_host_that_leaves_takes_its_run_along(bench: Any, request_: Any, backend: str, leaves: str) -> None:
    with bench.listen() as heard, host(bench, request_, backend, leaves) as process:
        heard.pid_within(20)
        assert process.stdin
        process.stdin.write(b"leave\n")
        process.stdin.flush()
        process.wait(12)
        assert nothing_lives(bench)
        assert process.stderr
        said = process.stderr.read().decode()
    assert "never retrieved" not in said
    assert "was destroyed" not in said
    if "_exit" not in leaves:
        assert bench.leftovers() == []
    remove_leftovers(bench)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.behaviour("process:host-death")
def test_a_person_who_interrupts_the_host_ends_the_run_in_good_order(bench: Any, backend: str) -> None:
    request = bench.request([bench.sleeper()])
    with bench.listen() as heard, host(bench, request, backend) as process:
        heard.pid_within(20)
        process.send_signal(signal.SIGINT)
        process.wait(8)
        assert nothing_lives(bench)
        assert process.stderr
        said = process.stderr.read().decode()
    assert "KeyboardInterrupt" in said
    assert "never retrieved" not in said
    assert bench.leftovers() == []


def remove_leftovers(bench: Any) -> None:
    """A host that was killed cannot remove the private folders of its runs."""
    for name in bench.leftovers():
        shutil.rmtree(bench.state / "runs" / name)
