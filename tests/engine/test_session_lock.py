"""One run a session, between tasks and between processes."""

import subprocess
import sys

import pytest

from interlock.engine.session_lock import SessionLock
from interlock.errors import SessionBusy
from interlock.request import Fork, NewSession, Resume

HOLDER = """
import sys
from pathlib import Path
from interlock.engine.session_lock import SessionLock
from interlock.request import Resume
lock = SessionLock.take(Path(sys.argv[1]), "a", Resume(id="s"))
print("held", flush=True)
sys.stdin.read()
"""


def take(state, session, agent="a"):
    return SessionLock.take(state, agent, session)


@pytest.mark.parametrize("second", [Resume(id="s"), NewSession(id="s"), Fork(id="other", new_id="s")])
def test_a_session_that_is_written_is_written_by_one_run(tmp_path, second):
    lock = take(tmp_path, Resume(id="s"))
    with pytest.raises(SessionBusy):
        take(tmp_path, second)
    lock.release()
    take(tmp_path, second).release()


@pytest.mark.parametrize("second", [Resume(id="t"), Fork(id="s"), NewSession()])
def test_what_is_not_written_is_not_held(tmp_path, second):
    lock = take(tmp_path, Resume(id="s"))
    take(tmp_path, second).release()
    take(tmp_path, Resume(id="s"), agent="b").release()
    lock.release()


def test_a_lock_leaves_no_file(tmp_path):
    lock = take(tmp_path, Resume(id="../../s"))
    assert [path.name for path in tmp_path.iterdir()] == ["locks"]
    lock.release()
    lock.release()
    assert list((tmp_path / "locks").iterdir()) == []


def test_a_lock_ends_with_its_process(tmp_path):
    argv = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(SessionBusy):
            take(tmp_path, Resume(id="s"))
        holder.kill()
        holder.wait(10)
    take(tmp_path, Resume(id="s")).release()
