"""The process layer on real processes: streams, ends, trees, and what becomes of them when somebody dies."""

import errno
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import pytest

from interlock.engine import descent, guardian
from interlock.engine.process import Exit, GuardianLost, Process, Stream, StreamClosed, spawn

UNIQUE = f"600.{os.getpid()}"
pytestmark = pytest.mark.anyio

ENV = {"PATH": os.environ["PATH"]}
CONTRACT = str(Path(descent.__file__).parents[2])


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


async def start(argv: Sequence[str], cwd: str = "/") -> Process:
    return await spawn(argv, cwd=cwd, env=ENV)


async def everything(stream: Stream) -> bytes:
    pieces = []
    while piece := await stream.receive():
        pieces.append(piece)
    return b"".join(pieces)


async def words(stream: Stream, count: int) -> list[str]:
    """The first `count` words that a program prints."""
    text = b""
    while len(text.split()) < count or not text.endswith(b"\n"):
        piece = await stream.receive()
        assert piece, f"the output ended after {text!r}"
        text += piece
    return text.decode().split()


async def pids(process: Process, count: int) -> list[int]:
    return [int(word) for word in await words(process.stdout, count)]


def close(process: Process) -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()


async def end(process: Process) -> int:
    killed = await process.kill_tree()
    close(process)
    return killed


async def until_gone(pid: int) -> None:
    """Wait for the end of any process, by its handle."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await anyio.wait_readable(handle)
    finally:
        os.close(handle)


async def all_gone(pids: Sequence[int], within: float = 5) -> None:
    with anyio.fail_after(within):
        for pid in pids:
            await until_gone(pid)


def alive(pid: int) -> bool:
    proc = descent.look(pid)
    return proc is not None and not proc.dead


def birth(pid: int) -> int:
    proc = descent.look(pid)
    assert proc is not None
    return proc.start


def open_descriptors() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


@pytest.fixture
async def running() -> AsyncGenerator[Process]:
    process = await start(["cat"])
    yield process
    await end(process)


async def test_five_megabytes_pass_both_ways_at_once() -> None:
    process = await start(["cat"])
    sent = os.urandom(1 << 20) * 5
    received = bytearray()

    async def read() -> None:
        received.extend(await everything(process.stdout))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await process.stdin.send(sent)
            process.stdin.send_eof()
        assert await process.wait() == Exit(0, None)
    assert received == sent
    assert await end(process) == 0


async def test_two_senders_do_not_mix() -> None:
    process = await start(["cat"])
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for letter in (b"a", b"b"):
                tasks.start_soon(process.stdin.send, letter * (1 << 20))
            text = b""
            while len(text) < 2 << 20:
                text += await process.stdout.receive()
    assert text in (b"a" * (1 << 20) + b"b" * (1 << 20), b"b" * (1 << 20) + b"a" * (1 << 20))
    await end(process)


async def test_errors_and_output_are_apart() -> None:
    process = await start(["sh", "-c", "echo out; echo err >&2"])
    with anyio.fail_after(5):
        assert await everything(process.stdout) == b"out\n"
        assert await everything(process.stderr) == b"err\n"
    await end(process)


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_the_stdio_of_an_agent_cannot_be_opened_by_others(running: Process, number: int) -> None:
    for mode in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        with pytest.raises(OSError, match=os.strerror(errno.ENXIO)) as caught:
            os.open(f"/proc/{running.pid}/fd/{number}", mode)
        assert caught.value.errno == errno.ENXIO


async def test_a_command_of_the_agent_cannot_speak_for_the_host() -> None:
    script = "for n in 0 1; do (: <>/proc/$PPID/fd/$n) 2>/dev/null || echo refused; done"
    process = await start(python(f"import os, subprocess; subprocess.run(['sh', '-c', {script!r}])"))
    with anyio.fail_after(10):
        assert await everything(process.stdout) == b"refused\nrefused\n"
    await end(process)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exit 0", Exit(0, None)),
        ("exit 7", Exit(7, None)),
        ("kill -9 $$", Exit(None, 9)),
        ("kill -15 $$", Exit(None, 15)),
    ],
)
async def test_the_end_of_a_program_is_told_as_code_or_signal(script: str, expected: Exit) -> None:
    process = await start(["sh", "-c", script])
    with anyio.fail_after(5):
        assert await process.wait() == expected
        assert await process.wait() == expected
    await end(process)


async def test_many_wait_for_one_program() -> None:
    process = await start(["cat"])
    ends: list[Exit] = []

    async def wait() -> None:
        ends.append(await process.wait())

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            process.stdin.send_eof()
    assert ends == [Exit(0, None)] * 5
    await end(process)


async def test_a_cancelled_reader_hands_its_turn_on() -> None:
    first, second = await start(["cat"]), await start(["cat"])
    ends: list[Exit] = []

    async def wait_for_second() -> None:
        ends.append(await second.wait())

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()

            async def wait_for_first() -> None:
                with scope:
                    await first.wait()

            tasks.start_soon(wait_for_first)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(wait_for_second)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await anyio.wait_all_tasks_blocked()
            second.stdin.send_eof()
    assert ends == [Exit(0, None)]
    await end(first)
    await end(second)


async def test_a_program_that_is_not_there_is_file_not_found() -> None:
    for program in ("no-such-program", "/no/such/program"):
        with pytest.raises(FileNotFoundError) as caught:
            await start([program])
        assert caught.value.filename == program


async def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        await start(["true"], cwd=str(tmp_path / "gone"))
    assert caught.value.filename == str(tmp_path / "gone")


async def test_a_file_that_may_not_run_is_a_permission_error(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    with pytest.raises(PermissionError) as caught:
        await start([str(program)])
    assert caught.value.filename == str(program)


async def test_an_argument_that_is_too_long_is_e2big() -> None:
    with pytest.raises(OSError, match=os.strerror(errno.E2BIG)) as caught:
        await start(["echo", "x" * 200_000])
    assert caught.value.errno == errno.E2BIG


@pytest.mark.parametrize(
    ("argv", "env"), [([], {}), (["a\0b"], {}), (["true"], {"A=B": ""}), (["true"], {"": ""}), (["true"], {"A": "\0"})]
)
async def test_what_no_program_can_be_given_is_a_value_error(argv: list[str], env: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"empty|zero byte"):
        await spawn(argv, cwd="/", env=env)


async def test_the_environment_is_as_given_but_for_the_mark() -> None:
    env = {**ENV, "LARGE": "v" * 100_000, "MORE": "w" * 100_000, "BYTES": "\udcff\u20ac"}
    process = await spawn(["env", "-0"], cwd="/", env=env)
    with anyio.fail_after(5):
        text = await everything(process.stdout)
    seen = dict(os.fsdecode(line).split("=", 1) for line in text.split(b"\0") if line)
    assert len(seen.pop(descent.MARK)) == 32
    assert seen == env
    await end(process)


async def test_a_program_is_found_by_the_path_it_is_given(tmp_path: Path) -> None:
    program = tmp_path / "only-here"
    program.write_text("#!/bin/sh\necho found\n", encoding="utf-8")
    program.chmod(0o755)
    process = await spawn(["only-here"], cwd="/", env={"PATH": f"/nowhere:{tmp_path}"})
    with anyio.fail_after(5):
        assert await everything(process.stdout) == b"found\n"
    await end(process)


async def test_a_program_starts_clean(tmp_path: Path) -> None:
    """Own session, the directory asked for, default signals, three descriptors and no more."""
    leaky = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leaky, True)
    code = (
        "import os\n"
        "names = os.listdir('/proc/self/fd')\n"
        "def there(n):\n"
        "    try: os.fstat(n)\n"
        "    except OSError: return False\n"
        "    return True\n"
        "print(sorted(n for n in map(int, names) if there(n)))\n"
        "print(os.getsid(0) == os.getpid(), os.getcwd())"
    )
    try:
        process = await start(python(code), cwd=str(tmp_path))
        with anyio.fail_after(10):
            assert (await everything(process.stdout)).decode() == f"[0, 1, 2]\nTrue {tmp_path}\n"
    finally:
        os.close(leaky)
    await end(process)
    signals = await start(["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"])
    with anyio.fail_after(5):
        sets = [int(line.split()[1], 16) for line in (await everything(signals.stdout)).splitlines()]
    internal = (
        1 << 31 | 1 << 32
    )  # glibc's posix_spawn has every child ignore the two signals that glibc keeps for itself
    assert [each & ~internal for each in sets] == [0, 0]
    await end(signals)


async def test_a_signal_reaches_the_program_or_its_group() -> None:
    child = "trap 'echo child' USR1; echo $$; while :; do sleep 0.01; done"
    script = "trap 'echo got' USR1; sh -c \"$0\" & while :; do wait; done"
    process = await start(["sh", "-c", script, child])
    with anyio.fail_after(10):
        await words(process.stdout, 1)
        await process.signal(signal.SIGUSR1)
        assert await words(process.stdout, 1) == ["got"]
        await process.signal(signal.SIGUSR1, group=True)
        assert sorted(await words(process.stdout, 2)) == ["child", "got"]
    await end(process)


async def test_a_group_is_signalled_after_its_leader_has_ended() -> None:
    process = await start(["sh", "-c", "sleep 600 & echo $!"])
    with anyio.fail_after(5):
        [sleeper] = await pids(process, 1)
        assert await process.wait() == Exit(0, None)
        await process.signal(signal.SIGTERM)
        assert alive(sleeper)
        await process.signal(signal.SIGTERM, group=True)
        await until_gone(sleeper)
    await end(process)


TREES = {
    "a child in another session": "setsid sleep 600 & echo $!; wait",
    "a daemon by double fork": "(setsid sh -c 'sleep 600 & echo $!' &); wait; sleep 600",
    "an orphan without the environment": "env -i setsid sh -c 'sleep 600 & echo $!'; sleep 600",
    "an orphan of a program that has ended": "env -i setsid sh -c 'sleep 600 & echo $!'",
    "a child that ignores every signal": "trap '' TERM INT HUP; sleep 600 & echo $!; wait",
    "a child that is stopped": "sleep 600 & kill -STOP $!; echo $!; wait",
}


@pytest.mark.parametrize("script", TREES.values(), ids=TREES.keys())
async def test_nothing_of_a_tree_is_left(script: str) -> None:
    process = await start(["sh", "-c", script])
    with anyio.fail_after(10):
        found = await pids(process, 1)
        assert all(map(alive, found))
        assert await process.kill_tree() >= 1
        assert not any(map(alive, [process.pid, *found]))
        assert process.cleared
        assert process.survivors == ()
        assert await process.kill_tree() == 0
    close(process)


REFORKING = {
    "in one session": "while True:\n if os.fork(): os._exit(0)",
    "in ever new sessions": "while True:\n if os.fork(): os._exit(0)\n os.setsid()",
    "growing": "for _ in range(5): os.fork()\nwhile True:\n if os.fork(): os._exit(0)",
}


@pytest.mark.parametrize("scrub", [[], ["env", "-i"]], ids=["marked", "scrubbed"])
@pytest.mark.parametrize("code", REFORKING.values(), ids=REFORKING.keys())
async def test_a_loop_of_forks_loses(code: str, scrub: list[str]) -> None:
    process = await start([*scrub, *python(f"import os\nprint('go', flush=True)\n{code}")])
    with anyio.fail_after(30):
        await words(process.stdout, 1)
        await process.wait()
        while not process.cleared:
            await process.kill_tree()
        assert await everything(process.stdout) == b""  # nobody holds its other end any more
    close(process)


async def test_the_trees_of_two_runs_are_told_apart() -> None:
    script = "(setsid sh -c 'sleep 600 & echo $!' &); sleep 600"
    first, second = await start(["sh", "-c", script]), await start(["sh", "-c", script])
    with anyio.fail_after(10):
        [of_first], [of_second] = await pids(first, 1), await pids(second, 1)
        await end(first)
        assert not alive(of_first)
        assert alive(of_second)
        assert alive(second.pid)
        await end(second)
        assert not alive(of_second)


async def test_an_orphan_that_either_run_can_own_ends_with_the_last_of_them() -> None:
    other = await start(["cat"])
    process = await start(["sh", "-c", TREES["an orphan of a program that has ended"]])
    with anyio.fail_after(10):
        [orphan] = await pids(process, 1)
        await process.wait()
        await end(process)
        assert alive(orphan)
        later = await start(["cat"])
        while birth(later.pid) == birth(orphan):  # times are counted in hundredths of a second
            await end(later)
            later = await start(["cat"])
        await end(other)
        assert not alive(orphan)
        assert alive(later.pid)
    await end(later)


async def test_an_orphan_that_was_seen_in_a_tree_before_ends_with_that_tree() -> None:
    first, other = await start(["cat"]), await start(["cat"])
    process = await start(["sh", "-c", "env -i setsid sh -c 'sleep 600 & echo $!; read line'"])
    with anyio.fail_after(10):
        [orphan] = await pids(process, 1)
        await end(first)  # which has the guardian look at every tree
        await process.stdin.send(b"\n")
        await process.wait()
        await end(process)
        assert not alive(orphan)
        assert alive(other.pid)
    await end(other)


async def test_killing_is_not_cancelled() -> None:
    process = await start(["sleep", "600"])
    with anyio.CancelScope() as scope:
        scope.cancel()
        await process.kill_tree()
    assert not alive(process.pid)
    close(process)


def is_there(words: bytes) -> bool:
    """Whether a process with this command line is there."""
    for pid in descent.processes():
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes() == words:
                return True
    return False


async def test_starting_is_not_cancelled_half_way() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await start(["sleep", UNIQUE])
    assert scope.cancelled_caught
    assert not is_there(f"sleep\0{UNIQUE}\0".encode())


async def test_abandoning_needs_no_waiting() -> None:
    process = await start(["sh", "-c", "setsid sleep 600 & echo $!; wait"])
    found = await pids(process, 1)
    process.abandon()
    await all_gone([process.pid, *found])
    await end(process)


async def test_a_dropped_process_is_ended() -> None:
    process = await start(["sleep", "600"])
    pid = process.pid
    del process
    gc.collect()
    await all_gone([pid])


async def test_sending_to_a_program_that_has_ended_raises(running: Process) -> None:
    await running.kill_tree()
    with pytest.raises(StreamClosed):
        await running.stdin.send(b"x")
    assert await running.stdout.receive() == b""


async def test_a_stream_is_closed_under_its_reader(running: Process) -> None:
    async def close_when_blocked() -> None:
        await anyio.wait_all_tasks_blocked()
        running.stdout.close()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(close_when_blocked)
            assert await running.stdout.receive() == b""
    assert await running.stdout.receive() == b""
    running.stdin.close()
    running.stdin.close()
    running.stdin.send_eof()
    with pytest.raises(StreamClosed):
        await running.stdin.send(b"x")


async def test_a_hundred_programs_leave_nothing_open() -> None:
    await end(await start(["true"]))
    before = open_descriptors()
    for _ in range(100):
        process = await start(["true"])
        await process.wait()
        await end(process)
    assert open_descriptors() == before
    children = [proc for proc in descent.processes().values() if proc.parent in (os.getpid(), guardian._guardian.pid)]
    assert not [proc.pid for proc in children if proc.dead]


async def test_many_programs_run_at_once() -> None:
    async def one(number: int) -> None:
        process = await start(["sh", "-c", f"read line; echo $line; exit {number}"])
        await process.stdin.send(b"%d\n" % number)
        assert await everything(process.stdout) == b"%d\n" % number
        assert await process.wait() == Exit(number, None)
        await end(process)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(one, number)


async def test_the_loss_of_the_guardian_is_survived() -> None:
    process = await start(["sh", "-c", "(setsid sh -c 'sleep 600 & echo $!' &); sleep 600"])
    found = await pids(process, 1)
    lost = guardian._guardian.pid
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:

            async def kill_when_blocked() -> None:
                await anyio.wait_all_tasks_blocked()
                os.kill(lost, signal.SIGKILL)

            tasks.start_soon(kill_when_blocked)
            with pytest.raises(GuardianLost):
                await process.wait()
        assert not any(map(alive, [process.pid, *found]))
        with pytest.raises(GuardianLost):
            await process.signal(signal.SIGTERM)
        await end(process)
        again = await start(["sh", "-c", "exit 3"])
        assert await again.wait() == Exit(3, None)
    assert guardian._guardian.pid not in (lost, 0)
    await end(again)


async def test_a_guardian_lost_while_nobody_waits_is_replaced_at_the_next_start() -> None:
    process = await start(["sleep", "600"])
    lost = guardian._guardian.pid
    os.kill(lost, signal.SIGKILL)
    with anyio.fail_after(10):
        await until_gone(lost)
        again = await start(["true"])
        assert await again.wait() == Exit(0, None)
        assert not alive(process.pid)
    await end(again)
    await end(process)


async def test_a_guardian_that_does_not_answer_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    process = await start(["sleep", "600"])
    stuck = guardian._guardian.pid
    os.kill(stuck, signal.SIGSTOP)
    with anyio.fail_after(10):
        await process.kill_tree(within=0.1)
        assert not alive(process.pid)
        await until_gone(stuck)
        await end(await start(["true"]))
    close(process)


def test_the_end_of_a_loop_is_the_end_of_its_processes(anyio_backend: str) -> None:
    kept: list[Process] = []

    async def main() -> None:
        kept.append(await start(["sleep", "600"]))
        await all_gone([process.pid for process in kept[:-1]])
        assert alive(kept[-1].pid)

    anyio.run(main, backend=anyio_backend)
    anyio.run(main, backend=anyio_backend)
    anyio.run(all_gone, [process.pid for process in kept], backend=anyio_backend)
    for process in kept:
        process.abandon()
        close(process)


def test_two_loops_in_two_threads_share_the_guardian(anyio_backend: str) -> None:
    guardians: list[int] = []
    together = threading.Barrier(2)

    async def main() -> None:
        for _ in range(20):
            process = await start(["sh", "-c", "exit 5"])
            assert await process.wait() == Exit(5, None)
            await end(process)
        guardians.append(guardian._guardian.pid)

    def run() -> None:
        together.wait(5)
        anyio.run(main, backend=anyio_backend)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(guardians) == 2
    assert len(set(guardians)) == 1


HOST = """
import os, signal, sys
sys.path[:0] = sys.argv[1:2] + sys.argv[3:]
import anyio
from interlock.engine.process import spawn
kept = []
async def main():
    process = await spawn(
        ["sh", "-c", "(setsid sh -c 'sleep 600 & echo $!' &); env -i setsid sh -c 'sleep 600 & echo $!'; sleep 600"],
        cwd="/", env={"PATH": os.environ["PATH"]},
    )
    kept.append(process)
    found = b""
    while len(found.split()) < 2:
        found += await process.stdout.receive()
    print(process.pid, *found.decode().split(), flush=True)
    AFTERWARDS
anyio.run(main, backend=sys.argv[2])
"""


@contextmanager
def host(backend: str, afterwards: str) -> Generator[subprocess.Popen[str]]:
    """A process that starts a tree, prints its pids, and goes on as told; any warning there would be printed."""
    argv = [sys.executable, "-W", "error", "-c", HOST.replace("AFTERWARDS", afterwards), CONTRACT, backend]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, encoding="utf-8") as process:
        try:
            yield process
        finally:
            process.kill()


async def printed(process: subprocess.Popen[str]) -> list[int]:
    """The numbers of the next line that the host prints."""
    assert process.stdout is not None
    with anyio.fail_after(20):
        line = await anyio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)
    return [int(word) for word in line.split()]


async def test_the_death_of_the_host_is_the_end_of_its_trees(anyio_backend: str) -> None:
    with host(anyio_backend, "await anyio.sleep_forever()") as process:
        found = await printed(process)
        assert len(found) == 3
        assert all(map(alive, found))
        process.kill()
        await all_gone(found)


@pytest.mark.parametrize("afterwards", ["pass", "sys.exit(0)", "del process; kept.clear()"])
async def test_an_interpreter_that_exits_leaves_nothing_and_says_nothing(anyio_backend: str, afterwards: str) -> None:
    with host(anyio_backend, afterwards) as process:
        found = await printed(process)
        await all_gone([process.pid], 20)
        await all_gone(found)
        _, errors = process.communicate(timeout=10)
        assert errors == ""
        assert process.returncode == 0


FORK = """
    child = os.fork()
    if child == 0:
        os.read(0, 1)
        os._exit(0)
    print(child, flush=True)
    await anyio.sleep_forever()
"""


async def test_a_forked_child_of_the_host_keeps_no_agent_alive(anyio_backend: str) -> None:
    with host(anyio_backend, FORK) as process:
        found = await printed(process)
        [child] = await printed(process)
        process.kill()
        await all_gone(found)
        assert alive(child)
        assert process.stdin is not None
        process.stdin.close()
        await all_gone([child])


FORK_AND_USE = """
    import threading
    ends = []
    async def in_child():
        again = await spawn(["sh", "-c", "exit 9"], cwd="/", env={"PATH": os.environ["PATH"]})
        ends.append(await again.wait())
    child = os.fork()
    if child == 0:
        process.abandon()
        process.stdin.close()
        del process
        kept.clear()
        thread = threading.Thread(target=anyio.run, args=(in_child,))
        thread.start()
        thread.join()
        os._exit(ends[0].code)
    _, status = os.waitpid(child, 0)
    os.kill(process.pid, 0)
    print(os.waitstatus_to_exitcode(status), await process.kill_tree(), flush=True)
    for stream in process.stdin, process.stdout, process.stderr:
        stream.close()
"""


async def test_a_forked_child_has_a_guardian_of_its_own() -> None:
    with host("asyncio", FORK_AND_USE) as process:
        await printed(process)
        status, killed = await printed(process)
        assert status == 9
        assert killed >= 3
        _, errors = process.communicate(timeout=10)
        assert errors == ""
