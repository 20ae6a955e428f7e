"""What agents write: huge, broken, foreign, too much, too late; nothing of it is lost, and nothing stops the run."""

import json
import time
import tracemalloc
from typing import Any

import anyio
import pytest

from interlock.events import BaseEvent, Notice, Raw, RunFinished, RunStarted, Text, TextDelta
from interlock.outcome import Reason, Status

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024


def texts(events: list[BaseEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Text)]


@pytest.mark.behaviour("framing:long-line")
async def test_a_line_of_twelve_mebibytes_arrives_whole_and_what_follows_it_too(bench: Any) -> None:
    request = bench.request([{"line_of": 12 * MIB}, {"text": "small"}])
    with anyio.fail_after(20):
        async with bench.client().stream(request) as run:
            events = await bench.events(run)
            outcome = await run.outcome(check=True)
    huge, small = texts(events)
    assert 12 * MIB - 500 < len(huge) < 12 * MIB
    assert (small, outcome.text) == ("small", "small")


@pytest.mark.behaviour("framing:long-line")
async def test_a_line_over_the_cap_is_dropped_alone_with_its_true_length_and_the_client_works_on(bench: Any) -> None:
    size = 64 * MIB + 17
    with anyio.fail_after(40):
        async with bench.client() as client:
            async with client.stream(bench.request([{"line_of": size}, {"text": "small"}])) as run:
                events = await bench.events(run)
                outcome = await run.outcome(check=True)
            second = await client.run(bench.request([{"text": "again"}]))
    [notice] = [event for event in events if isinstance(event, Notice) and event.code == "line_too_long"]
    assert f"{size} bytes" in notice.message
    assert len(notice.message) < 5000
    assert (texts(events), outcome.text, second.text) == (["small"], "small", "again")


@pytest.mark.behaviour("framing:noise")
async def test_text_of_people_on_the_protocol_stream_is_noise_and_never_glued_to_the_next_line(bench: Any) -> None:
    line = json.dumps({"type": "assistant", "message": {"role": "assistant", "content": "glued"}})
    junk = ["\U0001f680 Update ready!\n", "[x] sending {\n", "\x1b[31mdebug\x1b[0m\n", "\n", f"garbage{line}\n"]
    request = bench.request(
        [
            *({"print": text} for text in junk[:2]),
            {"text": "one"},
            *({"print": text} for text in junk[2:]),
            {"print": line.replace("glued", "carriage") + "\r\n"},
            {"text": "two"},
        ]
    )
    with anyio.fail_after(10):
        async with bench.client().stream(request) as run:
            events = await bench.events(run)
            outcome = await run.outcome(check=True)
    assert texts(events) == ["one", "carriage", "two"]
    noise = [event for event in events if isinstance(event, Notice) and event.code == "stdout_noise"]
    assert len(noise) == 4
    assert "Update ready!" in outcome.stdout_noise
    assert "garbage" in outcome.stdout_noise
    assert outcome.text == "two"


@pytest.mark.behaviour("framing:utf-8")
async def test_bytes_that_are_no_text_are_noise(bench: Any) -> None:
    request = bench.request([{"print_bytes_base64": "u/+7Cg=="}, {"text": "done"}])
    with anyio.fail_after(10):
        outcome = await bench.client().run(request)
    assert outcome.text == "done"
    assert outcome.stdout_noise


@pytest.mark.behaviour("framing:noise")
async def test_nothing_but_junk_is_a_failed_protocol_and_no_hang(bench: Any) -> None:
    request = bench.request(binary=bench.program("echo 'Welcome! Please log in first.'; cat >/dev/null & exit 0"))
    with anyio.fail_after(10):
        outcome = await bench.client().run(request, check=False)
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.PROTOCOL)
    assert "Please log in first." in outcome.describe()


@pytest.mark.behaviour("framing:unknown-message")
async def test_unknown_messages_are_kept_raw_and_end_nothing(bench: Any) -> None:
    unknown = [
        {"type": "brand_new", "n": 1},
        {"type": "system", "subtype": "brand_new"},
        {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "hologram", "x": 1}]}},
        {"no_type": True},
        {"type": 7},
        {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "hm"}]}},
    ]
    known = {"type": "assistant", "message": {"role": "assistant", "content": "kept", "news": 1}, "extra": [1]}
    limit = {"rate_limit_event": {"status": "allowed"}}
    request = bench.request([*({"unknown_event": one} for one in (*unknown, known)), limit, {"text": "done"}])
    with anyio.fail_after(10):
        async with bench.client().stream(request) as run:
            events = await bench.events(run)
            outcome = await run.outcome(check=True)
    raws = [event.data for event in events if isinstance(event, Raw)]
    assert raws == [*unknown[:2], {"type": "hologram", "x": 1}, *unknown[3:]]
    assert texts(events) == ["kept", "done"]
    assert outcome.rate_limit is not None
    assert not outcome.rate_limit.blocking


@pytest.mark.behaviour("process:stderr")
async def test_a_mebibyte_on_stderr_first_blocks_nothing_and_its_tail_is_kept(bench: Any) -> None:
    request = bench.request([{"stderr": {"bytes": MIB}}, {"stderr": "the last line\n"}, {"text": "done"}])
    with anyio.fail_after(10):
        outcome = await bench.client().run(request)
    assert outcome.text == "done"
    assert outcome.stderr_tail.endswith("the last line\n")
    assert len(outcome.stderr_tail) <= 16 * 1024


@pytest.mark.parametrize("code", [0, 3])
async def test_a_stderr_of_megabytes_before_a_crash_still_shows_its_last_line(bench: Any, code: int) -> None:
    noise = "head -c 3000000 /dev/zero | tr '\\0' 'x' >&2"
    request = bench.request(binary=bench.program(f"{noise}; echo 'the reason' >&2; exit {code}"))
    with anyio.fail_after(10):
        outcome = await bench.client().run(request, check=False)
    assert outcome.stderr_tail.endswith("the reason\n")


@pytest.mark.behaviour("process:grandchild")
async def test_an_orphan_that_holds_stdout_neither_delays_the_end_nor_costs_the_last_line(bench: Any) -> None:
    """The result comes from the orphan, after the agent has exited."""
    result = {"type": "result", "subtype": "success", "is_error": False, "result": "late", "session_id": "s"}
    late = f"sleep 0.1; printf '%s\\n' '{json.dumps(result)}'; exec sleep 600"
    request = bench.request([{"text": "on"}, {"spawn_orphan": ["sh", "-c", late]}, {"exit": 0}])
    began = time.monotonic()
    with anyio.fail_after(10):
        outcome = await bench.client().run(request, check=False)
    assert (outcome.status, outcome.text, outcome.exit_code) == (Status.COMPLETED, "late", 0)
    assert time.monotonic() - began < 1.5
    bench.assert_nothing_left()


async def test_an_orphan_that_holds_stdout_after_the_result_is_ended_with_the_run(bench: Any) -> None:
    request = bench.request([{"spawn_orphan": ["sleep", "600"]}, {"text": "done"}])
    began = time.monotonic()
    with anyio.fail_after(10):
        outcome = await bench.client().run(request)
        bench.assert_nothing_left()
    assert (outcome.text, outcome.exit_code) == ("done", 0)
    assert time.monotonic() - began < 1.5


async def test_an_agent_that_closes_its_stdout_and_stays_is_ended_as_crashed(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.engine.supervisor.LINGER", 0.3)
    request = bench.request([{"text": "on"}, {"close_stdout": True}, {"hang": True}])
    with anyio.fail_after(10):
        outcome = await bench.client().run(request, check=False)
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.CRASHED)


@pytest.mark.behaviour("process:stdin")
async def test_an_agent_that_no_longer_hears_us_fails_by_protocol(bench: Any) -> None:
    """Its stdin is closed, so an answer of ours would never come."""
    request = bench.request(binary=bench.program("exec 0<&-; sleep 600"))
    with anyio.fail_after(10):
        outcome = await bench.client().run(request, check=False)
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.PROTOCOL)


async def test_a_slow_reader_holds_the_agent_up_and_loses_nothing(bench: Any) -> None:
    block = "x" * 100_000
    steps = [{"text": block, "chunk": 200_000} for _ in range(400)]
    request = bench.request([*steps, {"text": "done"}])
    with anyio.fail_after(60):
        async with bench.client().stream(request) as run:
            assert isinstance(await anext(run), RunStarted)
            tracemalloc.start()
            try:
                await anyio.sleep(1)  # nobody reads: the agent writes as much as it is let
                waiting = tracemalloc.get_traced_memory()[0]
            finally:
                tracemalloc.stop()
            events = await bench.events(run)
    assert waiting < 60 * MIB
    assert len(texts(events)) == 401
    assert isinstance(events[-1], RunFinished)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


async def test_who_never_reads_and_awaits_the_outcome_gets_it(bench: Any) -> None:
    request = bench.request([{"text": "x" * 60_000, "chunk": 4}, {"text": "done"}])
    with anyio.fail_after(20):
        async with bench.client().stream(request) as run:
            outcome = await run.outcome(check=True)
    assert outcome.text == "done"


async def test_who_stops_reading_and_awaits_the_outcome_gets_it(bench: Any) -> None:
    request = bench.request([{"text": "x" * 60_000, "chunk": 4}, {"text": "done"}])
    with anyio.fail_after(20):
        async with bench.client().stream(request) as run:
            await bench.until(run, TextDelta)
            outcome = await run.outcome(check=True)
    assert outcome.text == "done"


@pytest.mark.parametrize("reader_first", [True, False])
async def test_one_task_reads_and_another_awaits_the_outcome(bench: Any, reader_first: bool) -> None:
    """Whichever comes first, the reader sees every event."""
    events: list[BaseEvent] = []
    outcomes = []

    async with bench.client().stream(bench.request([{"text": "hello", "chunk": 1}])) as run:

        async def read() -> None:
            events.extend(await bench.events(run))

        async def wait() -> None:
            outcomes.append(await run.outcome())

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                for task in (read, wait) if reader_first else (wait, read):
                    group.start_soon(task)
    assert [type(events[0]), type(events[-1])] == [RunStarted, RunFinished]
    assert [event.seq for event in events] == list(range(len(events)))
    assert outcomes[0].text == "hello"


async def test_two_readers_share_the_events(bench: Any) -> None:
    seen: list[int] = []
    async with bench.client().stream(bench.request([{"text": "hello world", "chunk": 1}])) as run:

        async def read() -> None:
            async for event in run:
                seen.append(event.seq)
                await anyio.lowlevel.checkpoint()

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(read)
                group.start_soon(read)
    assert sorted(seen) == list(range(len(seen)))
