"""What an agent calls our endpoints with: how it comes into a recording, and how a replay calls again."""

import json
import subprocess

import anyio
import pytest
from tests.recordings import jackdaw

from interlock import Allow, Client, DenyCall, Request, Status
from interlock.actions import Reply, Send
from interlock.events import ToolDecided
from interlock_adapters.codex import adapter as codex
from interlock_fixtures.conformance import checks, run_checks, subject_of
from interlock_fixtures.conformance.running import Replayed
from interlock_fixtures.endpoint_notes import EndpointNotes
from interlock_fixtures.offering import offering
from interlock_fixtures.record import Recorder
from interlock_fixtures.recording import Meta, Recording, Wire, load_recording, save_recording, whole_messages
from interlock_fixtures.replay import Faults, install_replay, moved

pytestmark = pytest.mark.behaviour("kit:replay:endpoint")

LIMIT = 30
TOKEN = "a-token-of-sixteen-or-more"
TOLD = json.dumps({"url": "http://127.0.0.1:9/hooks", "headers": {"Authorization": f"Bearer {TOKEN}"}}).encode()


def shapes(wires) -> list[tuple[str, bytes]]:
    return [(wire.channel, wire.data) for wire in wires]


def test_a_call_stands_after_what_its_agent_had_said_and_been_told() -> None:
    notes = EndpointNotes()
    notes.heard("stdout", b"one\ntw")
    notes.did([Send(b"hello\n")])
    notes.called("hooks", "k1", b"call")
    notes.heard("stdout", b"o\n")
    notes.did([Reply("hooks", "k1", b"answer")])
    pieces = [
        Wire("stdout", b"one\n", 1),
        Wire("stdout", b"tw", 2),
        Wire("stdin", b"hello\n", 3),
        Wire("stdout", b"o\n", 4),
        Wire("stdout", b"three\n", 5),
    ]
    told = list(whole_messages(notes.among(pieces)))
    assert shapes(told) == [
        ("stdout", b"one\n"),
        ("stdin", b"hello\n"),
        ("call", b"call"),
        ("stdout", b"two\n"),
        ("answer", b"answer"),
        ("stdout", b"three\n"),
    ]
    assert {(wire.endpoint, wire.key) for wire in told if wire.channel in {"call", "answer"}} == {("hooks", "k1")}


def test_an_answer_does_not_wait_for_what_was_written_at_the_same_time() -> None:
    notes = EndpointNotes()
    notes.called("hooks", "k1", b"call")
    notes.did([Send(b"late\n"), Reply("hooks", "k1", b"answer")])
    pieces = [Wire("stdout", b"follows\n", 1), Wire("stdin", b"late\n", 2)]
    assert [wire.channel for wire in notes.among(pieces)] == ["call", "answer", "stdout", "stdin"]


def test_calls_survive_saving_and_loading(tmp_path) -> None:
    meta = Meta(
        agent="a", transport="t", version="1", case="x", request={"agent": "a", "prompt": "p"}, endpoints={"h": "http"}
    )
    wire = (
        Wire("call", b'{"id":1}', 3, endpoint="h", key="h-1"),
        Wire("answer", b"", 4, endpoint="h", key="h-1"),
        Wire("hangup", t=5, endpoint="h", key="h-2"),
    )
    recording = Recording(meta, wire)
    assert load_recording(save_recording(recording, tmp_path)) == recording


def test_a_replay_that_nobody_has_told_of_the_endpoint_says_so_and_ends(tmp_path) -> None:
    meta = {"agent": "a", "transport": "t", "version": "1", "case": "x", "request": {"agent": "a", "prompt": "p"}}
    wire = (Wire("stdin", b"go\n"), Wire("call", b"{}", endpoint="hooks", key="k"), Wire("stdout", b"ran\n"))
    program = install_replay(tmp_path, Recording(Meta(**meta, endpoints={"hooks": "mcp"}), wire))
    played = subprocess.run([program], input=b"go\n", capture_output=True, timeout=LIMIT, check=False)
    assert (played.returncode, played.stdout) == (1, b"")
    assert b"hooks" in played.stderr


def test_a_replay_whose_call_is_not_answered_runs_nothing(tmp_path) -> None:
    meta = {"agent": "a", "transport": "t", "version": "1", "case": "x", "request": {"agent": "a", "prompt": "p"}}
    call, answer = (Wire(channel, b"{}", endpoint="hooks", key="k") for channel in ("call", "answer"))
    recording = Recording(Meta(**meta, endpoints={"hooks": "mcp"}), (Wire("stdin", TOLD + b"\n"), call, answer))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([install_replay(tmp_path, recording)], **pipes) as played:
        played.stdin.write(TOLD + b"\n")
        played.stdin.flush()
        assert played.wait(LIMIT) == 1
        assert played.stdout.read() == b""
        assert TOKEN.encode() not in played.stderr.read()


class Guard:
    """Lets no ring be taken."""

    name = "guard"
    events = ("pre_tool_use",)
    may = ("deny",)

    async def before(self, call):
        return DenyCall(reason="not yours") if "ring" in str(call.input) else Allow()


async def run(folder, binary, *chain):
    """A run of the jackdaw; gives outcome and decisions."""
    workspace = folder / "repo"
    workspace.mkdir(parents=True)
    request = Request(
        agent="jackdaw", prompt="go", cwd=str(workspace), binary=str(binary), permission={"posture": "full"}
    )
    decided = {}
    with anyio.fail_after(LIMIT):
        async with Client(interceptors=chain, state=folder / "state") as client, client.stream(request) as running:
            async for event in running:
                if isinstance(event, ToolDecided):
                    decided[event.tool_call_id] = event.decision
            return await running.outcome(), decided


@pytest.fixture
async def recorded(tmp_path, monkeypatch):
    """The jackdaw's run under a guard, recorded, saved and loaded."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with offering(jackdaw.adapter), Recorder(jackdaw.adapter, jackdaw.hatch(tmp_path), version="0") as recorder:
        outcome, decided = await run(tmp_path, recorder.program, Guard())
        assert (outcome.text, decided) == ("spoon", {"spoon": "allow", "ring": "deny"}), outcome.describe()
        kept = save_recording(recorder.recording("thief", recorded_by="a test"), tmp_path / "kept")
    return load_recording(kept)


@pytest.mark.anyio
async def test_calls_by_plain_http_are_recorded_without_address_and_token(recorded) -> None:
    assert dict(recorded.meta.endpoints) == {"asks": "http"}
    calls = {json.loads(wire.data)["take"]: wire.key for wire in recorded.wire if wire.channel == "call"}
    answers = {wire.key: json.loads(wire.data)["may"] for wire in recorded.wire if wire.channel == "answer"}
    assert {thing: answers[key] for thing, key in calls.items()} == {"spoon": True, "ring": False}
    text = "".join(wire.to_json() for wire in recorded.wire) + recorded.meta.to_json()
    assert "Bearer" not in text
    assert "127.0.0.1" not in text


@pytest.mark.anyio
@pytest.mark.parametrize("chunks", ["message", "whole", 1])
async def test_a_replay_calls_the_endpoint_that_a_file_of_its_own_run_tells_of(recorded, tmp_path, chunks) -> None:
    place = tmp_path / "again"
    place.mkdir()
    program = install_replay(place, moved(recorded, place / "repo"), Faults(chunks=chunks))
    with offering(jackdaw.adapter):
        outcome, decided = await run(place, program, Guard())
        assert (outcome.status, outcome.text) == (Status.COMPLETED, "spoon")
        assert decided == {"spoon": "allow", "ring": "deny"}


@pytest.mark.anyio
async def test_what_is_answered_is_what_this_run_decides(recorded, tmp_path) -> None:
    """The recorded agent says what it took then, though this time nobody forbade it: that is noticed."""
    place = tmp_path / "again"
    place.mkdir()
    with offering(jackdaw.adapter):
        _, decided = await run(place, install_replay(place, recorded), *())
    assert decided == {"spoon": "allow", "ring": "allow"}


@pytest.mark.anyio
async def test_the_conformance_suite_takes_calls_of_an_endpoint_for_what_they_are(recorded) -> None:
    chosen = [check for check in checks() if check.number in {10, 11, 13, 14, 20, 23, 30, 31, 32, 33}]
    report = run_checks(subject_of(jackdaw.adapter, [recorded]), chosen)
    assert report.ok, report.describe()


@pytest.mark.anyio
@pytest.mark.parametrize("case", ["shell-deny", "patch", "gate", "sub-agent", "code"])
async def test_codex_runs_again_with_the_same_decisions(case, recordings_root, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    recording = load_recording(recordings_root / "codex" / codex.versions.newest / case)
    workspace = tmp_path / "repo"
    workspace.mkdir()
    program = install_replay(tmp_path, moved(recording, workspace))
    request = {**recording.meta.request, "cwd": str(workspace), "binary": str(program)}
    with anyio.fail_after(LIMIT):
        client = Client(interceptors=[Replayed(recording)], state=tmp_path / "state")
        async with client, client.stream(Request.model_validate(request)) as running:
            told = [event async for event in running if isinstance(event, ToolDecided)]
            outcome = await running.outcome()
    decided = [(event.tool_call_id, event.decision == "allow") for event in told if event.event == "pre_tool_use"]
    then = [(one.call, one.verdict == "proceed") for one in recording.meta.verdicts if one.stage == "before"]
    assert (outcome.status, outcome.text) == (Status.COMPLETED, "done"), outcome
    assert sorted(decided) == sorted(then)
