"""Replays: a recording played to whatever reads it, whole and with each fault."""

import json
import signal
import subprocess

import pytest

from interlock_fixtures.message_framing import body, framed, messages
from interlock_fixtures.recording import Meta, Recording, Wire, load_recording
from interlock_fixtures.replay import Faults, install_replay, moved

pytestmark = pytest.mark.behaviour("kit:replay")

ASK = b'{"type":"control_request","request_id":"q1","request":{"subtype":"x"}}\n'
ANSWER = b'{"type":"control_response","response":{"subtype":"success","request_id":"q1"}}\n'
WIRE = (
    Wire("stdin", b'{"method":"start","id":"ours-1"}\n'),
    Wire("stdout", b'{"id":"ours-1","result":1}\n'),
    Wire("stdin", b'{"say":"hello"}\n'),
    Wire("stdout", ASK),
    Wire("stdin", ANSWER),
    Wire("stdout", b'{"type":"done"}\n'),
    Wire("stdin", eof=True),
    Wire("stdout", eof=True),
)
STDOUT = b"".join(wire.data for wire in WIRE if wire.channel == "stdout")
INPUT = WIRE[0].data + WIRE[2].data + ANSWER


def a_recording(wire=WIRE, **more):
    meta = {"agent": "a", "transport": "t", "version": "1", "case": "x", "request": {"agent": "a", "prompt": "p"}}
    return Recording(Meta(**{**meta, "code": 0, **more}), wire)


@pytest.fixture
def play(tmp_path):
    def run(faults=None, given=INPUT, recording=None):
        program = install_replay(tmp_path, recording or a_recording(), faults)
        return subprocess.run([program], input=given, capture_output=True, timeout=30, check=False)

    return run


@pytest.mark.parametrize("chunks", ["message", "whole", 1, 7])
def test_what_was_said_is_said_again(play, chunks) -> None:
    played = play(Faults(chunks=chunks))
    assert (played.stdout, played.stderr, played.returncode) == (STDOUT, b"", 0)


def test_nothing_is_said_before_what_it_followed_on(play) -> None:
    assert play(given=WIRE[0].data).stdout == WIRE[1].data
    assert play(given=WIRE[0].data + WIRE[2].data).stdout == WIRE[1].data + ASK


def test_input_without_a_last_newline_is_heard_at_its_end(play) -> None:
    wire = (Wire("stdin", b"go"), Wire("stdin", eof=True), Wire("stdout", b"gone\n"), Wire("stdout", eof=True))
    assert play(given=b"go", recording=a_recording(wire)).stdout == b"gone\n"
    assert play(given=b"", recording=a_recording(wire)).stdout == b""


def test_an_answer_is_told_by_the_id_of_its_question(play) -> None:
    other = ANSWER.replace(b"q1", b"q0")
    assert play(given=INPUT.replace(ANSWER, other)).stdout == WIRE[1].data + ASK
    assert play(given=ANSWER + INPUT.replace(ANSWER, other)).stdout == STDOUT


def test_an_id_of_ours_is_taken_over(play) -> None:
    assert play(given=INPUT.replace(b"ours-1", b"ours-77")).stdout == STDOUT.replace(b"ours-1", b"ours-77")


def test_exit_code_and_signal_are_those_of_the_recording(play) -> None:
    assert play(recording=a_recording(code=3)).returncode == 3
    assert play(recording=a_recording(code=None, signal=15)).returncode == -signal.SIGTERM


@pytest.mark.parametrize("place", [0, 1, len(STDOUT) // 2, len(STDOUT)])
def test_a_cut_ends_it_after_so_many_bytes(play, place) -> None:
    played = play(Faults(cut_at=place))
    assert (played.stdout, played.returncode) == (STDOUT[:place], 1)
    assert play(Faults(cut_at=place, code=0)).returncode == 0
    assert play(Faults(cut_at=place, signal=9)).returncode == -signal.SIGKILL


def test_garbage_a_doubled_end_and_noise_on_stderr(play) -> None:
    assert play(Faults(garbage=b"\xbb{\n")).stdout == b"\xbb{\n" + STDOUT
    assert play(Faults(garbage=b"?\n", garbage_before=1)).stdout == WIRE[1].data + b"?\n" + STDOUT[len(WIRE[1].data) :]
    assert play(Faults(duplicate_end=True)).stdout == STDOUT + WIRE[5].data
    assert len(play(Faults(stderr=300_000)).stderr) == 300_000


@pytest.mark.parametrize("faults", [Faults(stall_at=30, ignore_term=True), Faults(ignore_term=True)])
def test_one_that_is_deaf_to_signals_stays_until_it_is_killed(faults, tmp_path) -> None:
    program = install_replay(tmp_path, a_recording(), faults)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(INPUT)
        process.stdin.close()
        process.stdout.read(30)
        process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.kill()


def frame(said):
    return framed("content_length", json.dumps(said).encode())


FRAMES = (
    Wire("stdin", frame({"id": 1, "method": "connect"})),
    Wire("stdout", frame({"id": 1, "result": {"number": 1}})),
    Wire("stdin", frame({"id": 2, "method": "send"})),
    Wire("stdout", frame({"id": 1, "method": "hooks.invoke"})),
    Wire("stdout", frame({"method": "asked", "params": {"id": 2}})),
    Wire("stdin", frame({"id": 1, "result": {}})),
    Wire("stdout", frame({"id": 2, "result": "a\nContent-Length: 1\u2028"})),
    Wire("stdin", eof=True),
    Wire("stdout", eof=True),
)
FRAMED_STDOUT = b"".join(wire.data for wire in FRAMES if wire.channel == "stdout")
FRAMED_STDIN = b"".join(wire.data for wire in FRAMES if wire.channel == "stdin")


@pytest.mark.parametrize("chunks", ["message", "whole", 1, 7])
def test_frames_are_said_again(play, chunks) -> None:
    recording = a_recording(FRAMES, framing="content_length")
    assert play(Faults(chunks=chunks), FRAMED_STDIN, recording).stdout == FRAMED_STDOUT


def test_of_frames_nothing_is_said_before_what_it_followed_on(play) -> None:
    recording = a_recording(FRAMES, framing="content_length")
    assert play(given=FRAMED_STDIN[:-1], recording=recording).stdout == FRAMED_STDOUT[: -len(FRAMES[6].data)]
    assert play(given=FRAMES[0].data[:-1], recording=recording).stdout == b""


@pytest.mark.parametrize("place", [0, 20, len(FRAMED_STDOUT) - 1])
def test_frames_may_be_cut_anywhere_and_noise_may_stand_between(play, place) -> None:
    recording = a_recording(FRAMES, framing="content_length")
    assert play(Faults(cut_at=place), FRAMED_STDIN, recording).stdout == FRAMED_STDOUT[:place]
    noisy = play(Faults(garbage=b"?\n", garbage_before=1, duplicate_end=True), FRAMED_STDIN, recording).stdout
    first = FRAMES[1].data
    assert noisy == first + b"?\n" + FRAMED_STDOUT[len(first) :] + FRAMES[6].data


def test_a_number_of_ours_is_taken_over_only_where_it_is_answered(play) -> None:
    recording = a_recording(FRAMES, framing="content_length")
    given = FRAMED_STDIN.replace(FRAMES[2].data, frame({"id": 200, "method": "send"}))
    last = frame({"id": 200, "result": "a\nContent-Length: 1\u2028"})
    assert play(given=given, recording=recording).stdout == FRAMED_STDOUT.replace(FRAMES[6].data, last)


def approve(number, question):
    params = {"requestId": question, "result": {"kind": "approve-once"}}
    return frame({"id": number, "method": "session.permissions.handlePendingPermissionRequest", "params": params})


def test_approvals_may_come_in_another_order(play) -> None:
    first, second = approve(5, "p1"), approve(6, "p2")
    wire = (
        Wire("stdin", first),
        Wire("stdout", frame({"id": 5, "result": "one ran"})),
        Wire("stdin", second),
        Wire("stdout", frame({"id": 6, "result": "two ran"})),
    )
    recording = a_recording(wire, framing="content_length")
    assert play(given=approve(5, "p2"), recording=recording).stdout == b""
    said = play(given=approve(5, "p2") + approve(6, "p1"), recording=recording).stdout
    assert said == frame({"id": 6, "result": "one ran"}) + frame({"id": 5, "result": "two ran"})


def test_a_frame_says_its_new_length_where_the_workspace_is_another(tmp_path) -> None:
    recording = a_recording((Wire("stdout", frame({"cwd": "/repo/a"})),), framing="content_length")
    (there,) = moved(recording, tmp_path).wire
    assert there.data == frame({"cwd": f"{tmp_path}/a"})


@pytest.mark.parametrize("kept", ["claude/2.1.332/bash", "copilot/1.0.102/bash"])
def test_a_kept_recording_says_again_what_was_recorded(kept, recordings_root, tmp_path) -> None:
    recording = load_recording(recordings_root / kept)
    program = install_replay(tmp_path, recording, Faults(chunks=1))
    played = subprocess.run([program], input=recording.on("stdin"), capture_output=True, timeout=30, check=False)
    assert played.stdout == recording.on("stdout")
    said = [body(message) for message in messages(recording.meta.framing, played.stdout)]
    assert [json.loads(one) for one in said]
