"""A terminal as the channel to an agent: raw before the first byte, whole prompts, its own session, no survivors."""

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from interlock.adapter import WindowSize
from interlock.engine import descent
from interlock.engine.process import Exit, StreamClosed, TerminalProcess, spawn_on_terminal
from interlock.engine.pty import InputCut

pytestmark = pytest.mark.anyio
ENV = {"PATH": os.environ["PATH"]}
COUNT = """
import os, hashlib
data = b""
os.write(1, b"go\\n")
while not data.endswith(b"\\n"):
    data += os.read(0, 65536)
os.write(1, f"{len(data)} {hashlib.sha256(data).hexdigest()}\\n".encode())
"""
LINE_MODE = """
import termios, sys
modes = termios.tcgetattr(0)
modes[3] |= termios.ICANON
termios.tcsetattr(0, termios.TCSANOW, modes)
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


async def start(argv: Sequence[str], rows: int = 50, columns: int = 200) -> TerminalProcess:
    return await spawn_on_terminal(argv, cwd="/", env=ENV, size=WindowSize(rows, columns))


async def everything(process: TerminalProcess) -> bytes:
    said = b""
    while piece := await process.stdout.receive():
        said += piece
    return said


async def until(process: TerminalProcess, wanted: bytes) -> bytes:
    said = b""
    while wanted not in said:
        piece = await process.stdout.receive()
        assert piece, said
        said += piece
    return said


async def end(process: TerminalProcess) -> None:
    await process.kill_tree()
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()


@pytest.mark.parametrize("length", [5_000, 200_000])
async def test_a_line_of_any_length_arrives_whole_and_is_not_echoed(length: int) -> None:
    with anyio.fail_after(20):
        process = await start(python(COUNT))
        await until(process, b"go\r\n")
        line = b"x" * length + b"\n"
        await process.stdin.send(line)
        said = await everything(process)
        assert said == f"{len(line)} {hashlib.sha256(line).hexdigest()}\r\n".encode()
        assert await process.wait() == Exit(0, None)
        await end(process)


async def test_a_prompt_that_comes_before_the_agent_reads_is_not_lost() -> None:
    with anyio.fail_after(20):
        process = await start(["sh", "-c", "sleep 0.2; " + f'exec "{sys.executable}" -I -S -c "$0"', COUNT])
        async with anyio.create_task_group() as group:
            group.start_soon(process.stdin.send, b"y" * 199_999 + b"\n")
            said = await everything(process)
        assert said.startswith(b"go\r\n200000 ")
        await end(process)


async def test_in_line_mode_what_would_be_cut_is_refused_and_the_rest_is_sent() -> None:
    with anyio.fail_after(20):
        process = await start(python(LINE_MODE + COUNT))
        await until(process, b"go\r\n")
        with pytest.raises(InputCut, match="5001 bytes only the first"):
            await process.stdin.send(b"z" * 5001 + b"\n")
        await process.stdin.send(b"short\n")
        assert (await everything(process)).startswith(b"6 ")
        await end(process)


async def test_the_three_streams_are_the_controlling_terminal_of_a_session_of_its_own() -> None:
    code = """
import os, sys
tty = os.open("/dev/tty", os.O_RDWR)
print([os.isatty(n) for n in (0, 1, 2)], len({os.ttyname(n) for n in (0, 1, 2)}), os.getsid(0) == os.getpid(),
      os.tcgetpgrp(tty) == os.getpgrp(), tuple(os.get_terminal_size()), sorted(map(int, os.listdir("/dev/fd")))[:-1])
"""
    with anyio.fail_after(20):
        process = await start(python(code), rows=33, columns=77)
        said = await everything(process)
        assert said == b"[True, True, True] 1 True True (77, 33) [0, 1, 2, 3]\r\n", said  # 3 is /dev/tty
        assert await process.stderr.receive() == b""
        await end(process)


async def test_what_is_written_on_stderr_stands_on_the_screen() -> None:
    with anyio.fail_after(20):
        process = await start(["sh", "-c", "echo out; echo err >&2"])
        assert await everything(process) == b"out\r\nerr\r\n"
        await end(process)


async def test_keys_are_no_signals() -> None:
    code = "import os; os.write(1, b'go'); got = os.read(0, 9); os.write(1, repr(got).encode())"
    with anyio.fail_after(20):
        process = await start(python(code))
        await until(process, b"go")
        await process.stdin.send(b"\x03\x1a\x1c\x04")
        assert await everything(process) == rb"b'\x03\x1a\x1c\x04'"
        assert await process.wait() == Exit(0, None)
        await end(process)


async def test_nothing_outlives_the_tree_on_a_terminal_not_even_what_left_its_session() -> None:
    with anyio.fail_after(20):
        process = await start(["sh", "-c", "setsid sleep 600 & sleep 601 & echo $! ; trap '' HUP TERM; sleep 602"])
        await until(process, b"\n")
        assert await process.kill_tree() >= 3
        assert process.cleared
        assert not process.survivors
        await end(process)


async def test_hanging_up_ends_the_reader_and_refuses_what_is_sent() -> None:
    with anyio.fail_after(20):
        process = await start(["sleep", "600"])
        await process.kill_tree()
        process.stdin.close()
        assert await process.stdout.receive() == b""
        with pytest.raises(StreamClosed):
            await process.stdin.send(b"x")
        await end(process)


async def test_what_nobody_has_read_is_counted() -> None:
    code = "import os; os.write(1, b'go'); os.read(0, 3); os.write(1, b'read'); os.read(0, 9); os.read(0, 9)"
    with anyio.fail_after(20):
        process = await start(["sh", "-c", "echo up; read -r line"])
        await until(process, b"up\r\n")
        await process.kill_tree()
        assert process.terminal.unread == 0
        await end(process)
        process = await start(["sleep", "600"])
        await process.stdin.send(b"12345")
        while process.terminal.unread != 5:  # noqa: ASYNC110 -- the system hands it over on its own time
            await anyio.sleep(0.001)
        await end(process)
        process = await start(python(code))
        await until(process, b"go")
        await process.stdin.send(b"abc")
        await until(process, b"read")
        assert process.terminal.unread == 0
        await end(process)


async def test_a_program_that_is_not_there_is_the_same_error_as_without_a_terminal() -> None:
    with anyio.fail_after(20), pytest.raises(FileNotFoundError):
        await start(["/nowhere/agent"])


async def test_a_flood_is_read_as_it_comes_and_ends_with_the_program() -> None:
    with anyio.fail_after(30):
        process = await start(["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end"])
        said = await everything(process)
        assert len(said) == 3_000_000 + len(b"\r\nend\r\n")
        await end(process)


HOST = """
import os, sys
sys.path[:0] = sys.argv[1:2] + sys.argv[3:]
import anyio
from interlock.adapter import WindowSize
from interlock.engine.process import spawn_on_terminal
async def main():
    code = "trap '' HUP; (setsid sh -c 'sleep 600 & echo $!' &); env -i setsid sh -c 'sleep 600 & echo $!'; sleep 600"
    env = {"PATH": os.environ["PATH"]}
    process = await spawn_on_terminal(["sh", "-c", code], cwd="/", env=env, size=WindowSize())
    found = b""
    while len(found.split()) < 2:
        found += await process.stdout.receive()
    print(process.pid, *found.decode().split(), flush=True)
    AFTERWARDS
anyio.run(main, backend=sys.argv[2])
"""


@pytest.mark.parametrize("afterwards", ["await anyio.sleep_forever()", "pass", "del process"])
async def test_the_end_of_the_host_is_the_end_of_its_trees_on_terminals(anyio_backend: str, afterwards: str) -> None:
    contract = str(Path(descent.__file__).parents[2])
    argv = [sys.executable, "-W", "error", "-c", HOST.replace("AFTERWARDS", afterwards), contract, anyio_backend]
    async with await anyio.open_process(argv, stderr=None) as host:
        assert host.stdout is not None
        said = b""
        with anyio.fail_after(20):
            while not said.endswith(b"\n"):
                said += await host.stdout.receive()
            if "forever" in afterwards:
                host.kill()
            await host.wait()
            for pid in map(int, said.split()):
                await until_gone(pid)


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
