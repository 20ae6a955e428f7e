"""The program that stands between engine and agent changes nothing, and what it notes becomes a recording."""

import json
import os
import shlex
import signal
import subprocess
import sys

import pytest

from interlock import Client, Request
from interlock.actions import Ending, Send
from interlock.adapter import Argument, Launch
from interlock.engine.registry import find_adapter
from interlock.framing.content_length import ContentLengthFramer
from interlock.framing.line_adapter import DESCENT, LineAdapter, LineCodec
from interlock.outcome import Status
from interlock_adapters.claude import adapter
from interlock_fixtures.clis import clis_required, find_cli
from interlock_fixtures.conformance import run_checks, subject_of
from interlock_fixtures.conformance.registry import checks
from interlock_fixtures.message_framing import body, framed
from interlock_fixtures.record import Recorder, recorded
from interlock_fixtures.recording import Wire, load_recording, save_recording, whole_messages
from interlock_fixtures.scripted_agent.launcher import install
from interlock_fixtures.scripted_model import ScriptedModel, Text, Turn

pytestmark = pytest.mark.behaviour("kit:record")

CAT = "cat; echo gone >&2; exit 7"


@pytest.fixture
def program(tmp_path):
    def write(code: str):
        path = tmp_path / "agent"
        path.write_text(f"#!/bin/sh\n{code}\n", "utf-8")
        path.chmod(0o755)
        (tmp_path / "notes").mkdir()
        return recorded(path, tmp_path / "notes")

    return write


def test_bytes_and_exit_code_pass_unaltered(program) -> None:
    data = bytes(range(256)) * 4000
    done = subprocess.run([program(CAT)], input=data, capture_output=True, timeout=30, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (data, b"gone\n", 7)


def test_arguments_and_environment_pass_too(program) -> None:
    wrapped = program('printf "%s|" "$@" "$COLOUR"')
    env = {**os.environ, "COLOUR": "grey"}
    done = subprocess.run([wrapped, "a b", "", "-x"], capture_output=True, timeout=30, check=False, env=env)
    assert done.stdout == b"a b||-x|grey|"


def test_a_signal_reaches_the_agent_and_its_death_is_ours(program) -> None:
    wrapped = program("echo ready; exec sleep 600")
    with subprocess.Popen([wrapped], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.wait(30) == -signal.SIGTERM


def test_pieces_become_messages_in_the_order_in_which_they_were_complete() -> None:
    pieces = [Wire("stdout", b"a", 1), Wire("stdin", b"x\ny", 2), Wire("stdout", b"b\nc\n", 3), Wire("stdin", eof=True)]
    told = [(wire.channel, wire.data, wire.eof) for wire in whole_messages(pieces)]
    assert told == [
        ("stdin", b"x\n", False),
        ("stdout", b"ab\n", False),
        ("stdout", b"c\n", False),
        ("stdin", b"y", False),
        ("stdin", b"", True),
    ]


def test_pieces_become_frames_where_messages_are_framed() -> None:
    frame = framed("content_length", b'{"a":"\\n"}')
    pieces = [
        Wire("stdout", frame[:9], 1),
        Wire("stderr", b"x\ny", 2),
        Wire("stdout", frame[9:] + frame[:3], 3),
        Wire("stdout", eof=True, t=4),
    ]
    told = [(wire.channel, wire.data, wire.t) for wire in whole_messages(pieces, "content_length")]
    assert told == [
        ("stderr", b"x\n", 2),
        ("stdout", frame, 3),
        ("stdout", frame[:3], 4),
        ("stdout", b"", 4),
        ("stderr", b"y", 0),
    ]


class FramedCodec(LineCodec):
    """Says hello in a frame, and hears frames."""

    def __init__(self) -> None:
        super().__init__()
        self._frames = ContentLengthFramer()

    def prompt(self, prompt):
        return (Send(framed("content_length", json.dumps({"prompt": prompt}).encode())),)

    def received(self, channel, data):
        frames = self._frames.feed(data) if channel == "stdout" else ()
        ending = Ending(Status.COMPLETED)
        return [action for frame in frames if frame.startswith(b'{"over"') for action in self.finish(ending)]


def start_binary(order):
    return Launch((Argument(order.host.binary),), {}, ladder=DESCENT)


HELLO = """
import json, os, sys
header = sys.stdin.buffer.readline()
sys.stdin.buffer.readline()
said = json.loads(sys.stdin.buffer.read(int(header.split(b":")[1])))
told = {name: value for name, value in os.environ.items() if name.startswith("HELLO_")}
for body in ({"place": os.getcwd(), "more": "x" * 99}, {"gone": 1}, {"told": told}, {"over": said}):
    data = json.dumps(body).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n%b" % (len(data), data))
"""


@pytest.mark.anyio
async def test_frames_are_redacted_and_trimmed_or_left_out_and_announce_their_new_length(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    workspace = tmp_path / "a-place-with-a-long-name"
    workspace.mkdir()
    program = tmp_path / "hello"
    program.write_text(f"#!{sys.executable}\n{HELLO}", "utf-8")
    program.chmod(0o755)
    variables = {
        "HELLO_KEY": "hunter2",
        "HELLO_URL": "https://service.example/v1",
        "HELLO_LOCAL": "http://127.0.0.1:4711/v1",
        "HELLO_SWITCH": "true",
    }
    hello = LineAdapter("hello", FramedCodec, start_binary, install_hint="write one", key_variables=tuple(variables))

    def trim(message):
        return None if "gone" in message else {name: value for name, value in message.items() if name != "more"}

    with Recorder(hello, program, "1", trim) as recorder:
        fields = {"cwd": str(workspace), "binary": str(recorder.program), "env": variables}
        request = Request(agent="hello", prompt="go", **fields)
        async with Client(state=tmp_path / "state") as client:
            assert (await client.run(request)).ok
        recording = recorder.recording("hello", recorded_by="a test")
    assert recording.meta.framing == "content_length"
    assert recording.messages("stdin") == [framed("content_length", b'{"prompt": "go"}')]
    place, told, over = recording.messages("stdout")
    shown = {**variables, "HELLO_KEY": "placeholder", "HELLO_URL": "placeholder"}
    shown["HELLO_LOCAL"] = "http://127.0.0.1:8000/v1"
    assert json.loads(body(told))["told"] == dict(recording.meta.request["env"]) == shown
    assert place == framed("content_length", b'{"place":"/repo"}')
    assert over == framed("content_length", b'{"over": {"prompt": "go"}}')


@pytest.mark.anyio
async def test_a_recorded_run_tells_its_codec_the_same_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    workspace = tmp_path / "repo"
    workspace.mkdir()
    agent = install(tmp_path, [[{"tool": "Bash", "input": {"command": "echo $PWD"}, "id": "t1"}, {"text": "done"}]])
    with Recorder(adapter, agent, version="2.1.332") as recorder:
        fields = {"cwd": str(workspace), "binary": str(recorder.program), "permission": {"posture": "full"}}
        request = Request(agent="claude", prompt="go", env={"ANTHROPIC_API_KEY": "hunter2"}, **fields)
        async with Client(state=tmp_path / "state") as client:
            assert (await client.run(request)).ok
        recording = recorder.recording("bash", recorded_by="a test")
    assert b"/repo" in recording.on("stdout")
    assert str(tmp_path) not in recording.on("stdout").decode() + recording.meta.to_json()
    assert "hunter2" not in recording.meta.to_json()
    assert recording.meta.code == 0
    chosen = [check for check in checks() if check.number in {10, 11, 14, 30}]
    report = run_checks(subject_of(adapter, [recording]), chosen)
    assert report.ok, report.describe()


@pytest.mark.live
@pytest.mark.anyio
async def test_the_token_of_our_endpoint_is_not_kept(tmp_path, monkeypatch) -> None:
    cli = find_cli("codex", "oldest")
    if cli is None and not clis_required():
        pytest.skip("the real CLI is not installed: run `npm ci` in fixtures/clis")
    monkeypatch.setenv("HOME", str(tmp_path))
    workspace = tmp_path / "repo"
    workspace.mkdir()
    codex = find_adapter("codex")
    with ScriptedModel([Turn(Text("done"))]) as model, Recorder(codex, cli, version="0.171.0") as recorder:
        settings = [word for word in model.arguments("codex", "gpt-5.5") if word.startswith("model_provider")]
        fields = {"env": model.environment("codex"), "extra_args": [x for one in settings for x in ("-c", one)]}
        fields |= {"cwd": str(workspace), "binary": str(recorder.program), "transport": "app-server", "login": "env"}
        async with Client(state=tmp_path / "state") as client:
            assert (await client.run(Request(agent="codex", prompt="go", model="gpt-5.5", **fields))).ok
        save_recording(recorder.recording("text", recorded_by="a test"), tmp_path)
    assert b"Bearer [redacted]" in load_recording(tmp_path / "codex/0.171.0/text").on("stdin")


def test_a_recorder_that_saw_no_run_says_so(tmp_path) -> None:
    with Recorder(adapter, tmp_path / "claude", version="1") as recorder, pytest.raises(RuntimeError, match="0 runs"):
        recorder.recording("nothing", recorded_by="a test")


def test_the_program_is_run_by_this_interpreter_alone(tmp_path) -> None:
    words = shlex.split(recorded(tmp_path / "claude", tmp_path).read_text("utf-8").split("exec ")[1])
    assert words[:3] == [sys.executable, "-I", "-S"]
