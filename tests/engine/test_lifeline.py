"""The guardian as a program of its own, spoken to over bare sockets, and the judgements that it acts on."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from interlock.engine import descent, guardian
from interlock.engine.descent import Hunt, Proc
from interlock.engine.lifeline_wire import Inbox, pack, send_with

WITHIN = 10.0
SLEEPER = "setsid sleep 600 & echo $!; wait"


class Host:
    """What a host is to its guardian: a master connection, lines, and a pid."""

    def __init__(self, stack: ExitStack, host: int, program: str = guardian._PROGRAM) -> None:
        self._stack = stack
        self.master, theirs = (stack.enter_context(sock) for sock in socket.socketpair())
        engine = Path(descent.__file__).parent
        self.program = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program, "test", str(engine.parent), str(engine), str(host)],
            stdin=theirs,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        stack.callback(self._stop)
        theirs.close()

    def _stop(self) -> None:
        self.master.close()
        self.program.wait(WITHIN)

    def line(self) -> "Line":
        ours, theirs = (self._stack.enter_context(sock) for sock in socket.socketpair())
        send_with(self.master, pack({"op": "connect"}, 1), [theirs.fileno()])
        theirs.close()
        return Line(self._stack, ours)


class Line:
    """One connection, and what was spawned on it."""

    def __init__(self, stack: ExitStack, sock: socket.socket) -> None:
        sock.settimeout(WITHIN)
        self.sock = sock
        self._stack = stack
        self._inbox = Inbox()
        self._kept: list[dict[str, Any]] = []

    def tell(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        send_with(self.sock, pack(message, len(fds)), fds)

    def next(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message that is wanted, earlier and later ones kept for their own turn."""
        while True:
            for message in self._kept:
                if wanted(message):
                    self._kept.remove(message)
                    return message
            if (frame := self._inbox.take()) is not None:
                self._kept.append(frame[0])
            else:
                data = self.sock.recv(1 << 16)
                assert data, "the guardian hung up"
                self._inbox.feed(data, [])

    def answer(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> dict[str, Any]:
        self.tell(message, fds)
        return self.next(lambda found: found.get("seq") == message["seq"])

    def spawn(self, seq: int, *argv: str, token: str = "t") -> tuple[dict[str, Any], socket.socket]:
        """Start a program; the answer, and our end of its output."""
        ours, theirs = (self._stack.enter_context(sock) for sock in socket.socketpair())
        ours.settimeout(WITHIN)
        env = {"PATH": os.environ["PATH"]}
        request = {"op": "spawn", "seq": seq, "argv": argv, "env": env, "cwd": "/", "token": token}
        answer = self.answer(request, (theirs.fileno(),) * 3)
        theirs.close()
        return answer, ours


@pytest.fixture
def stack() -> Generator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def host(stack: ExitStack) -> Host:
    return Host(stack, os.getpid())


def gone(pid: int) -> bool:
    """Whether this process ends in time."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], WITHIN)[0])
    finally:
        os.close(handle)


def alive(pid: int) -> bool:
    proc = descent.look(pid)
    return proc is not None and not proc.dead


def test_a_program_is_started_and_its_end_is_told(host: Host) -> None:
    line = host.line()
    started, output = line.spawn(1, "sh", "-c", "echo out; exit 4")
    assert output.recv(100) == b"out\n"
    exited = line.next(lambda message: message["op"] == "exited")
    assert exited == {"op": "exited", "run": 1, "status": 4}
    assert started["start"] > 0
    assert output.recv(100) == b""  # the guardian holds no end of it


def test_a_kill_is_answered_when_nothing_is_left(host: Host) -> None:
    line = host.line()
    started, output = line.spawn(1, "sh", "-c", SLEEPER)
    sleeper = int(output.recv(100))
    answer = line.answer({"op": "kill", "seq": 2, "run": 1, "within": 5})
    assert answer == {"op": "answer", "seq": 2, "cleared": True, "killed": 2, "survivors": []}
    assert not alive(started["pid"])
    assert not alive(sleeper)
    again = line.answer({"op": "kill", "seq": 3, "run": 1, "within": 5})
    assert again == {"op": "answer", "seq": 3, "cleared": True, "killed": 0, "survivors": []}


def test_every_asker_for_one_end_is_answered(host: Host) -> None:
    line = host.line()
    line.spawn(1, "sleep", "600")
    line.tell({"op": "kill", "seq": 2, "run": 1, "within": 5})
    line.tell({"op": "kill", "seq": 3, "run": 1, "within": 5})
    for seq in (2, 3):
        assert line.next(lambda message, seq=seq: message.get("seq") == seq)["cleared"]


def test_what_cannot_be_started_says_why(host: Host) -> None:
    answer, _ = host.line().spawn(1, "/no/such/program")
    assert answer == {"op": "answer", "seq": 1, "errno": 2, "filename": "/no/such/program"}


def test_the_end_of_a_connection_ends_what_was_started_on_it_alone(host: Host) -> None:
    first, second = host.line(), host.line()
    started, output = first.spawn(1, "sh", "-c", SLEEPER, token="first")
    sleeper = int(output.recv(100))
    other, _ = second.spawn(1, "sleep", "600", token="second")
    first.sock.close()
    assert gone(started["pid"])
    assert gone(sleeper)
    assert alive(other["pid"])


def test_the_end_of_the_master_ends_everything_and_the_guardian(host: Host) -> None:
    line = host.line()
    started, output = line.spawn(1, "sh", "-c", SLEEPER)
    sleeper = int(output.recv(100))
    host.master.close()
    assert host.program.wait(WITHIN) == 0
    assert not alive(started["pid"])
    assert not alive(sleeper)


def test_the_end_of_the_host_is_noticed_though_its_sockets_live_on(stack: ExitStack) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        host = Host(stack, other.pid)
        started, _ = host.line().spawn(1, "sleep", "600")
        assert alive(started["pid"])
    assert host.program.wait(WITHIN) == 0
    assert not alive(started["pid"])


def test_a_guardian_whose_host_is_gone_already_ends_at_once(stack: ExitStack) -> None:
    with subprocess.Popen(["true"]) as other:
        pass
    assert Host(stack, other.pid).program.wait(WITHIN) == 0


def test_a_fault_of_the_guardian_leaves_nothing_behind(stack: ExitStack) -> None:
    fault = "from interlock.engine import household\nhousehold.Household.sweep = lambda self: 1 / 0\nmain()\n"
    host = Host(stack, os.getpid(), guardian._PROGRAM.replace("main()\n", fault))
    line = host.line()
    started, output = line.spawn(1, "sh", "-c", "(setsid env -i sleep 600 & echo $!); sleep 600")
    orphan = int(output.recv(100))
    line.tell({"op": "kill", "seq": 2, "run": 1, "within": 5})
    assert host.program.wait(WITHIN) == 1
    assert not alive(started["pid"])
    assert not alive(orphan)


def test_signals_from_a_terminal_do_not_reach_the_guardian(host: Host) -> None:
    line = host.line()
    line.spawn(1, "true")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGPIPE):
        host.program.send_signal(number)
    started, _ = line.spawn(2, "sleep", "600")
    assert alive(started["pid"])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"{}",
        b'{"op":[]}',
        b'{"op":"unknown"}',
        b'{"op":"spawn"}',
        b'{"op":"spawn","seq":7,"argv":[],"env":{},"cwd":"/","token":"x"}',
        b'{"op":"spawn","seq":7,"argv":["true"],"env":[],"cwd":"/","token":"x"}',
        b'{"op":"spawn","seq":7,"argv":["true"],"env":{},"cwd":"\\u0000","token":"x"}',
        b'{"op":"spawn","seq":7,"argv":["\\u20ac"],"env":{},"cwd":"/","token":"x"}',
        b'{"op":"spawn","seq":7,"argv":["true"],"env":{},"cwd":"/","token":"\\ud800"}',
        b'{"op":"signal","run":1,"number":"x","group":false}',
        b'{"op":"signal","run":1,"number":99999999999999999999,"group":false}',
        b'{"op":"signal","run":1,"number":4711,"group":true}',
        b'{"op":"kill","run":1}',
        b'{"op":"kill","run":1,"seq":9,"within":"long"}',
        b'{"op":"kill","run":1,"seq":9,"within":NaN}',
        b'{"op":"kill","run":[],"seq":{},"within":1}',
        b'{"op":"connect"}',
        b'{"op":"abandon","token":{}}',
    ],
)
def test_no_message_hurts_the_guardian(host: Host, body: bytes) -> None:
    line = host.line()
    started, _ = line.spawn(1, "sleep", "600")
    line.sock.sendall(len(body).to_bytes(4, "big") + b"\0" + body)
    again, _ = line.spawn(2, "true", token="later")
    assert "pid" in again
    assert alive(started["pid"]) or b"kill" in body


def test_descriptors_that_nobody_claims_are_closed(host: Host) -> None:
    line = host.line()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(WITHIN)
        send_with(line.sock, pack({"op": "unknown", "seq": 5}, 1), [theirs.fileno()])
        theirs.close()
        assert line.next(lambda message: message.get("seq") == 5)["errno"]
        assert ours.recv(1) == b""


def test_a_frame_beyond_the_cap_ends_its_connection_only(host: Host) -> None:
    bad, good = host.line(), host.line()
    started, _ = bad.spawn(1, "sleep", "600", token="bad")
    bad.sock.sendall(b"\xff" * 5)
    assert gone(started["pid"])
    assert "pid" in good.spawn(1, "true")[0]


def test_an_order_may_arrive_in_any_pieces(host: Host) -> None:
    line = host.line()
    frame = pack({"op": "kill", "seq": 9, "run": 1, "within": 1})
    for at in range(len(frame)):
        line.sock.sendall(frame[at : at + 1])
    assert line.next(lambda message: message.get("seq") == 9)["cleared"]


def test_abandoning_by_token_ends_one_tree(host: Host) -> None:
    line = host.line()
    first, _ = line.spawn(1, "sleep", "600", token="one")
    second, _ = line.spawn(2, "sleep", "600", token="two")
    send_with(host.master, pack({"op": "abandon", "token": "one"}), ())
    assert gone(first["pid"])
    assert alive(second["pid"])


def test_answers_wait_for_a_host_that_does_not_read(host: Host) -> None:
    line = host.line()
    count = 20_000
    for seq in range(count):
        line.tell({"op": "kill", "seq": seq, "run": 0, "within": 1})
    for seq in range(count):
        assert line.next(lambda message: True)["seq"] == seq


def test_the_guardian_holds_nothing_after_many_programs(host: Host) -> None:
    line = host.line()
    line.spawn(0, "true")
    folder = Path(f"/proc/{host.program.pid}/fd")
    before = sorted(path.name for path in folder.iterdir())
    for seq in range(1, 30):
        line.spawn(seq, "true", token=str(seq))
        line.next(lambda message, seq=seq: message.get("run") == seq)
        assert line.answer({"op": "kill", "seq": 1000 + seq, "run": seq, "within": 1})["cleared"]
    assert sorted(path.name for path in folder.iterdir()) == before


def test_ps_and_proc_tell_the_same() -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as child:
        by_proc, by_ps = descent.processes(), descent.table_from_ps()
        for pid in (child.pid, os.getpid()):
            one, other = by_proc[pid], by_ps[pid]
            assert (one.parent, one.group, one.dead) == (other.parent, other.group, other.dead)
        assert by_ps[os.getpid()].start <= by_ps[child.pid].start
        child.kill()


def test_a_dead_child_that_nobody_collected_is_dead() -> None:
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        proc = descent.look(child.pid)
        assert proc is not None
        assert proc.dead


def test_a_leader_that_ended_before_its_threads_is_not_dead() -> None:
    code = (
        "import ctypes, sys, threading\n"
        "threading.Thread(target=sys.stdin.read).start()\n"
        "print('go', flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"go\n"
        end = time.monotonic() + WITHIN
        while b") Z " not in Path(f"/proc/{child.pid}/stat").read_bytes() and time.monotonic() < end:
            os.sched_yield()
        assert alive(child.pid)
        child.kill()


def test_the_mark_is_read_from_the_environment_or_said_to_be_untold_yet() -> None:
    for _ in range(50):
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={"A": "1", descent.MARK: "abc", "B": "2"}) as child:
            while (found := descent.marks({child.pid, os.getpid()})) == {child.pid: descent.UNTOLD}:
                os.sched_yield()
            assert found == {child.pid: "abc"}


def test_an_empty_environment_has_no_mark() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={}) as child:
        while (found := descent.marks({child.pid})) == {child.pid: descent.UNTOLD}:
            os.sched_yield()
        assert found == {}


def test_a_recycled_pid_is_not_struck() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        proc = descent.look(child.pid)
        assert proc is not None
        earlier = Proc(proc.pid, proc.parent, proc.group, proc.session, proc.start - 1, dead=False)
        assert not descent.strike(earlier, signal.SIGKILL)
        assert not descent.strike_all([earlier], signal.SIGKILL)
        assert alive(child.pid)


def test_our_own_group_is_never_struck() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        proc = descent.look(child.pid)
        assert proc is not None
        assert proc.group == os.getpgrp()
        assert descent.strike_all([proc], signal.SIGKILL) == [proc]
        assert child.wait(WITHIN) == -signal.SIGKILL


def test_what_is_older_than_its_parent_is_not_its_child() -> None:
    parent = Proc(10, 1, 10, 10, 500, dead=False)
    child, stranger = Proc(11, 10, 10, 10, 500, dead=False), Proc(12, 10, 12, 12, 499, dead=False)
    children = descent.by_parent({proc.pid: proc for proc in (parent, child, stranger)})
    assert descent.descend([parent], children) == [parent, child]


def test_a_ring_of_parents_is_walked_once() -> None:
    one, other = Proc(10, 11, 10, 10, 5, dead=False), Proc(11, 10, 10, 10, 5, dead=False)
    assert len(descent.descend([one], descent.by_parent({10: one, 11: other}))) == 2


def test_a_tree_is_stopped_before_it_is_killed() -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as child:
        proc = descent.look(child.pid)
        assert proc is not None
        hunt = Hunt()
        assert hunt.press([proc])
        assert os.waitid(os.P_PID, child.pid, os.WSTOPPED) is not None
        assert not hunt.press([proc])
        assert child.wait(WITHIN) == -signal.SIGKILL
        assert hunt.killed == {proc.key}


def test_trees_are_ended_without_a_guardian() -> None:
    env = {"PATH": os.environ["PATH"], descent.MARK: "mine"}
    script = "(setsid sh -c 'sleep 600 & echo $!' &); env -i sleep 600 & echo $!; sleep 600"
    with (
        subprocess.Popen(["sh", "-c", script], env=env, stdout=subprocess.PIPE, start_new_session=True) as child,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={descent.MARK: "other"}) as other,
    ):
        assert child.stdout is not None
        found = [int(child.stdout.readline()) for _ in range(2)]
        start = descent.processes()[child.pid].start
        assert descent.destroy({"mine": (child.pid, start)}, WITHIN) >= 4
        assert not any(map(alive, [child.pid, *found]))
        assert alive(other.pid)


def test_no_trees_are_ended_at_once() -> None:
    assert descent.destroy({}, WITHIN) == 0


def test_the_guardian_starts_without_the_package_or_its_dependencies() -> None:
    code = "import sys; sys.argv = ['', *sys.argv[1:]]\n" + guardian._PROGRAM.replace(
        "main()\n", "print(*sorted(sys.modules))"
    )
    engine = Path(descent.__file__).parent
    words = [sys.executable, "-I", "-S", "-c", code, "test", str(engine.parent), str(engine)]
    loaded = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", check=True).stdout.split()
    ours = [name for name in loaded if name.startswith("interlock")]
    assert ours == ["interlock", "interlock.engine", *(f"interlock.engine.{name}" for name in NEEDED)]
    assert not {"asyncio", "dataclasses", "inspect", "pathlib", "subprocess", "typing", "anyio", "pydantic"} & {*loaded}


NEEDED = ["descent", "household", "lifeline", "lifeline_wire"]
