"""The journal: readable at every moment and at every cut, written by one, and what it adds up to."""

import json
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.batch.history import History
from interlock.batch.journal import JournalWriter, Line, Tail, read_lines
from interlock.errors import JournalDamaged, JournalFailed

KINDS = ("submitted", "started", "throttled", "retried", "lost", "ended", "outcome", "reopened", "unknown")


def written(folder: Path, lines: list[Line]) -> bytes:
    folder.mkdir(parents=True, exist_ok=True)
    data = b"".join(line.encoded(seq, float(seq)) for seq, line in enumerate(lines))
    (folder / "batch.jsonl").write_bytes(data)
    return data


def opened(folder: Path) -> JournalWriter:
    tail = Tail()
    for _ in read_lines(folder, tail=tail):
        pass
    return JournalWriter(folder, tail)


SAMPLE = [
    Line(kind="opened", driver="d"),
    Line(kind="submitted", run="a", key="a-1-d", number=1, usd=0.5),
    Line(kind="started", run="a", key="a-1-d", attempt="01-x", workspace="/w/\u00e9"),
    Line(kind="outcome", run="a", key="a-1-d", attempt="01-x", status="completed", usd=0.1),
]


@pytest.mark.behaviour("batch:journal")
def test_cut_at_every_byte_it_can_be_read_and_gone_on_with(tmp_path: Path) -> None:
    data = written(tmp_path, SAMPLE)
    ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
    for cut in range(len(data) + 1):
        (tmp_path / "batch.jsonl").write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends)
        assert [line.kind for line in read_lines(tmp_path)] == [line.kind for line in SAMPLE[:whole]]
        writer = opened(tmp_path)
        writer.write_now(Line(kind="end", reason="done"))
        writer.close()
        assert [line.kind for line in read_lines(tmp_path)] == [*(line.kind for line in SAMPLE[:whole]), "end"]


@pytest.mark.behaviour("batch:journal")
@pytest.mark.parametrize("line", range(len(SAMPLE)))
def test_a_line_in_the_middle_that_is_changed_or_missing_is_an_error_that_names_it(tmp_path: Path, line: int) -> None:
    written(tmp_path, [*SAMPLE, SAMPLE[0]])
    lines = (tmp_path / "batch.jsonl").read_bytes().splitlines(keepends=True)
    for damaged in ([*lines[:line], b"{}}\n", *lines[line + 1 :]], [*lines[:line], *lines[line + 1 :]]):
        (tmp_path / "batch.jsonl").write_bytes(b"".join(damaged))
        with pytest.raises(JournalDamaged) as caught:
            list(read_lines(tmp_path))
        assert caught.value.line == line + 1


def test_what_a_later_version_writes_beside_is_passed_over(tmp_path: Path) -> None:
    data = written(tmp_path, SAMPLE)
    later = {"v": 1, "seq": 4, "ts": 4.0, "kind": "teleported", "run": "a", "where": {"x": 1}}
    (tmp_path / "batch.jsonl").write_bytes(data + json.dumps(later).encode() + b"\n")
    history = History()
    for line in read_lines(tmp_path):
        history.take(line)
    assert history.order == {"a": None}
    (tmp_path / "batch.jsonl").write_bytes(data.replace(b'"v":1', b'"v":2'))
    with pytest.raises(JournalDamaged):
        list(read_lines(tmp_path))


def test_the_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    opened(tmp_path).close()
    for name in ("batch.jsonl", "results.jsonl"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_a_link_in_place_of_the_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "batch.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalFailed):
        opened(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.anyio
async def test_what_is_committed_is_written_and_what_is_posted_comes_in_order(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            for number in range(50):
                writer.post(Line(kind="started", run=str(number)))
            await writer.commit(Line(kind="outcome", run="last"))
            assert [line.run for line in read_lines(tmp_path)] == [*map(str, range(50)), "last"]
            async with anyio.create_task_group() as many:
                for number in range(50):
                    many.start_soon(writer.commit, Line(kind="outcome", run=str(number)))
            writer.finish()
    writer.close()
    assert sorted(line.run or "" for line in list(read_lines(tmp_path))[51:]) == sorted(map(str, range(50)))


@pytest.mark.anyio
async def test_a_write_that_fails_is_an_error_and_leaves_whole_lines(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            await writer.commit(Line(kind="opened"))
            writer.close()  # as of now every write fails
            with pytest.raises(JournalFailed):
                await writer.commit(Line(kind="outcome", run="a"))
            with pytest.raises(JournalFailed):
                await writer.commit(Line(kind="outcome", run="b"))
            writer.finish()
    assert [line.kind for line in read_lines(tmp_path)] == ["opened"]


# ---- what it adds up to --------------------------------------------------------------------------------------------


def any_line() -> st.SearchStrategy[Line]:
    run = st.sampled_from(["a", "b", "c"])
    number = st.integers(1, 3)

    def line(kind: str, run: str, number: int, usd: float | None) -> Line:
        return Line(
            kind=kind,
            run=run,
            number=number,
            key=f"{run}-{number}",
            attempt=f"0{number}-x",
            status="completed",
            usd=usd,
        )

    return st.builds(line, st.sampled_from(KINDS), run, number, st.none() | st.floats(0, 5))


@settings(max_examples=200, deadline=None)
@given(lines=st.lists(any_line(), max_size=40))
def test_whatever_the_lines_each_run_has_one_status_at_most(lines: list[Line]) -> None:
    history = History(detailed=True)
    for line in lines:
        history.take(line)
    counted = {run for run in ("a", "b", "c") if history.counted(run) is not None}
    assert set(history.order) == counted
    report = history.report(3)
    assert sum(report.statuses.values()) == len(counted) == 3 - report.unfinished
    assert history.usd >= 0
    for run in ("a", "b", "c"):
        last = [line.kind for line in lines if line.run == run and line.kind in {"outcome", "reopened"}][-1:]
        assert (run in counted) == (last == ["outcome"])


def test_of_an_attempt_whose_cost_nobody_knows_all_that_it_reserved_counts() -> None:
    history = History()
    for line in (
        Line(kind="submitted", run="a", key="k1", number=1, usd=2.0, tokens=100),
        Line(kind="lost", run="a", key="k1", counts=True, tokens=30),
        Line(kind="submitted", run="a", key="k2", number=2, usd=2.0, tokens=100),
        Line(kind="outcome", run="a", key="k2", status="completed", usd=0.25),
        Line(kind="submitted", run="b", key="k3", number=1),
        Line(kind="lost", run="b", key="k3", counts=False),
    ):
        history.take(line)
    assert (history.usd, history.tokens, history.unknown) == (2.25, 130, 1)
    assert (history.record("a").lost, history.record("b").lost, history.record("b").attempts) == (1, 0, 1)


def test_a_view_tells_each_attempt() -> None:
    history = History(detailed=True)
    for line in (*SAMPLE[:3], Line(kind="lost", run="a", key="a-1-d", counts=True, message="gone"), *retried()):
        history.take(line)
    view = history.view("a", 0)
    assert [(attempt.number, attempt.state) for attempt in view.attempts] == [(1, "lost"), (2, "counted")]
    assert view.attempts[0].message == "gone"
    assert view.attempts[0].workspace == "/w/\u00e9"
    assert view.status == "failed"


def retried() -> tuple[Line, ...]:
    more: dict[str, Any] = {"run": "a", "key": "a-2-d"}
    return Line(kind="submitted", number=2, **more), Line(kind="outcome", status="failed", attempt="02-y", **more)
