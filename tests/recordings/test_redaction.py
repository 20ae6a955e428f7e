"""What may stand in a recording, and what keeps one from being saved."""

import json

import pytest

from interlock_fixtures.message_framing import framed
from interlock_fixtures.recording import Meta, Recording, Wire, load_recording, save_recording
from interlock_fixtures.redaction import LooksSecret, Redactor, secrets_in

pytestmark = pytest.mark.behaviour("kit:recording")

UUID, OTHER = "0b9f3a5e-7a35-4d0e-9c53-6f1d2f4f9a10", "1C9f3a5e-7a35-4d0e-9c53-6f1d2f4f9a11"
SECRETS = [
    "sk-ant-api03-abcdefghijklmnop",
    "ghp_abcdefghijklmnopqrstuvwx",
    "AKIAABCDEFGHIJKLMNOP",
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    "Authorization: Bearer abcdefghijklmnopqrst",
    '{"refreshToken": "abcdefghijkl"}',
    "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
]


def a_recording(*lines: bytes) -> Recording:
    meta = Meta(agent="parrot", transport="parrot", version="1", case="x", request={"agent": "parrot", "prompt": "go"})
    return Recording(meta, tuple(Wire("stdout", line, number) for number, line in enumerate(lines)))


def test_an_id_is_the_same_number_wherever_it_stands() -> None:
    redact = Redactor()
    first, second = redact(f"{UUID} {OTHER}"), redact(f"{OTHER.lower()} {UUID.upper()}")
    assert first.split() == list(reversed(second.split()))
    assert first.split() == [f"00000000-0000-4000-8000-{number:012}" for number in (1, 2)]


def test_an_id_that_our_side_named_first_is_left_as_it_is() -> None:
    redact = Redactor()
    redact.keep_ids(f'{{"uuid":"{UUID}"}}')
    assert redact(UUID) == UUID


def test_paths_are_replaced_longest_first_and_in_the_spelling_of_folder_names() -> None:
    redact = Redactor(paths={"/home/ann": "/home/user", "/home/ann/work": "/repo"})
    assert redact("/home/ann/work/a /home/ann/b -home-ann-work") == "/repo/a /home/user/b -repo"


def test_names_are_replaced_as_whole_words_and_given_secrets_by_value() -> None:
    redact = Redactor(words={"annabel": "user", "root": "user"}, secrets=["hunter2"])
    assert redact("annabel annabelle root hunter2") == "user annabelle root [redacted]"


def test_a_loopback_port_differs_every_time_and_is_replaced() -> None:
    assert Redactor()("http://127.0.0.1:43567/v1") == "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize("secret", SECRETS)
def test_what_looks_like_a_secret_is_never_saved_and_never_repeated(secret, tmp_path) -> None:
    with pytest.raises(LooksSecret) as caught:
        save_recording(a_recording(b"{}\n", secret.encode() + b"\n"), tmp_path)
    assert secret not in str(caught.value)
    assert caught.value.where == "parrot/1/x/wire.jsonl:2"
    assert list(tmp_path.iterdir()) == []


def test_ordinary_protocol_lines_look_like_no_secret() -> None:
    assert secrets_in('{"uuid":"00000000-0000-4000-8000-000000000001","signature":"c2ln","api_key":"[redacted]"}') == ()


def test_a_recording_is_the_same_after_saving_and_loading(tmp_path) -> None:
    recording = a_recording('{"text":"a\u2028b\\u000b\U0001f426"}\r\n'.encode(), b"\xbb\xff\n", b"half")
    recording = Recording(recording.meta, (*recording.wire, Wire("stdin", t=9, eof=True)))
    folder = save_recording(recording, tmp_path)
    assert folder == tmp_path / "parrot" / "1" / "x"
    assert load_recording(folder) == recording


def test_frames_stand_as_what_they_say_and_are_the_same_after_loading(tmp_path) -> None:
    said = '{"a":"b\u2028\\r\\n"}'
    frames = [
        framed("content_length", said.encode()),
        b"noise\n",
        b"CONTENT-LENGTH: 2\r\n\r\n{}",
        b"Content-Length: 9\r\n",
    ]
    recording = a_recording(*frames, framed("content_length", b"\xbb"))
    folder = save_recording(recording, tmp_path)
    lines = [json.loads(line) for line in (folder / "wire.jsonl").read_text("utf-8").splitlines()]
    assert [set(line) - {"t", "channel"} for line in lines] == [{"body"}, {"data"}, {"data"}, {"data"}, {"base64"}]
    assert lines[0]["body"] == said
    assert load_recording(folder) == recording


def test_what_looks_like_a_secret_is_not_saved_in_a_frame_either(tmp_path) -> None:
    with pytest.raises(LooksSecret):
        save_recording(a_recording(framed("content_length", SECRETS[0].encode())), tmp_path)


def test_every_recording_that_is_kept_is_small_and_holds_no_secret_and_no_path_of_a_machine(recordings_root) -> None:
    files = [path for path in recordings_root.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"meta.json", "wire.jsonl"}
    for path in files:
        text = path.read_text("utf-8")
        assert len(text) < 60_000, path
        assert secrets_in(text) == (), path
        assert not [word for word in ("/tmp/", "/root", "/work/") if word in text], path
