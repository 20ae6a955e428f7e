"""Questions on a screen become calls, verdicts become keys, and what was not recognised gets none."""

import pytest

from interlock.actions import Defer, Emit, Proceed, Ready, Refuse, Send, Withdraw
from interlock.events import Notice, TextDelta, ToolRequested
from interlock.tools import ToolKind

ASKED = "\nls -l\nRun it? (y/n) "
NO = Refuse("no")


def test_a_question_is_a_call_with_the_exact_command(driven):
    driven.hear("Tool 1.0\nhello\n" + ASKED)
    (call,) = driven.asked
    assert (call.tool_name, call.tool_kind, call.subject.command, call.input) == (
        "run",
        ToolKind.SHELL,
        "ls -l",
        {"command": "ls -l"},
    )
    assert driven.sent == []
    assert [event.text for event in driven.events if isinstance(event, TextDelta)] == ["hello\n", "\n", "ls -l\n"]


def test_yes_and_no_are_the_keys_of_the_profile(driven):
    driven.hear(ASKED)
    (keys,) = driven.say(Proceed({"command": "ls -l"}))
    assert keys == Send(b"y\n", answers=True)
    driven.hear("\nfile\n" + ASKED)
    driven.say(NO)
    assert driven.sent == [b"y\n", b"n\n"]
    assert driven.ends == [("run", "ok"), ("run", "denied")]


@pytest.mark.parametrize("verdict", [Proceed({"command": "true"}, changed=True), Defer({"command": "ls -l"})])
def test_what_cannot_be_carried_out_is_no(driven, verdict):
    driven.hear(ASKED)
    driven.say(verdict)
    assert driven.sent == [b"n\n"]
    assert driven.ends == [("run", "denied")]


def test_the_same_question_again_is_asked_again(driven):
    for _ in range(3):
        driven.hear(ASKED)
        driven.say(Proceed())
    assert driven.sent == [b"y\n"] * 3
    assert len({call.tool_call_id for call in driven.asked}) == 3


def test_each_line_is_decided_by_itself_and_one_no_is_no(driven):
    driven.hear("\ncat <<E   \nrm -rf ~  \n# note    \n   \nE         \nRun it? (y/n) ")
    driven.say(Proceed())
    driven.say(NO)
    assert [call.subject.command for call in driven.asked] == ["cat <<E", "rm -rf ~"]
    assert driven.sent == [b"n\n"]
    assert driven.ends == [("run", "denied"), ("run", "error")]


def test_a_question_of_two_kinds_is_two_calls(driven):
    driven.hear("see\n.env\nOpen it? (y/n) ")
    driven.say(Proceed())
    driven.say(Proceed())
    assert [(call.tool_name, call.tool_kind, call.subject.paths) for call in driven.asked] == [
        ("open.read", ToolKind.READ, (".env",)),
        ("open.edit", ToolKind.EDIT, (".env",)),
    ]
    assert driven.sent == [b"y\n"]


def test_what_is_always_answered_asks_nobody(driven):
    driven.hear("Read the news? ")
    assert driven.asked == []
    assert driven.sent == [b"n\n"]
    assert any(isinstance(event, Notice) and event.code == "answered" for event in driven.events)


@pytest.mark.parametrize(
    "question",
    [
        "\nls -l\nRun it? (Y/n) ",  # a cosmetic change
        "\nls -l\nRun it? (y/n) \n",  # not before the cursor
        "\nls -l\nRun it? (y/n) and more",
        "\nls -l\n│ Run it? (y/n) ",
        "\nls\nDelete everything? (y/n) ",
        "Run it? (y/n) ",  # nothing is asked about
        "\n\nRun it? (y/n) ",
    ],
)
def test_an_unknown_question_gets_no_key_and_never_success(driven, question):
    driven.hear(question)
    driven.hear("")
    assert driven.asked == []
    assert driven.sent == []
    assert driven.codec.showing()
    assert driven.end(None, 15).ending.status == "failed"


@pytest.mark.parametrize(
    "trick",
    [
        b"\nls \x1b]0;; rm -rf ~\x07\r\nRun it? (y/n) ",  # hidden in a title
        b"\n\x1b[8mrm -rf ~;\x1b[0mls\r\nRun it? (y/n) ",  # concealed
        b"\nrm -rf ~\x1b[8Dls      \r\nRun it? (y/n) ",  # written over
        b"\nrm -rf ~\rls      \r\nRun it? (y/n) ",
        b"\nrm -rf ~\r\n\x1b[1Als      \r\nRun it? (y/n) ",
        b"\nls \x08\r\nRun it? (y/n) ",
        b"\nls \xff\r\nRun it? (y/n) ",
        b"\nls -l\r\nRun it? (y/n) \x1b[K",
        b"\n" + b"ls " * 80 + b"\r\nRun it? (y/n) ",  # as long as a line: it may have been wrapped
    ],
)
def test_a_command_that_was_not_printed_plainly_is_no_command(driven, trick):
    driven.hear(trick)
    assert driven.asked == []
    assert driven.sent == []


def test_colours_around_the_command_do_no_harm_and_in_it_they_do(driven):
    driven.hear(b"\r\nls -l\r\n\x1b[1mRun it? (y/n) \x1b[0m")
    assert len(driven.asked) == 1


def test_a_command_with_an_empty_line_is_not_cut_in_half(driven):
    driven.hear("\nrm -rf ~\n          \necho hi   \nRun it? (y/n) ")
    driven.say(Proceed())
    assert [call.subject.command for call in driven.asked] == ["rm -rf ~", "echo hi"]


def test_nothing_is_asked_while_the_agent_still_writes(driven):
    (wake,) = driven.codec.received("stdout", ASKED.replace("\n", "\r\n").encode())
    assert driven.codec.woke(wake.key)[-1] == wake  # a first look
    assert driven.codec.received("stdout", b"...") == []
    driven.do(driven.codec.woke(wake.key))
    assert driven.asked == []


def test_a_question_that_goes_away_is_withdrawn_and_a_late_yes_sends_nothing(driven):
    driven.hear(ASKED)
    (call,) = driven.asked
    withdrawn = driven.hear("\nnever mind\n")
    assert any(isinstance(action, Withdraw) for action in withdrawn)
    assert driven.say(Proceed(), call) == []
    assert driven.sent == []
    assert driven.ends == [("run", "error")]


def test_a_yes_that_comes_before_the_next_look_sends_nothing_to_another_question(driven):
    driven.hear(ASKED)
    driven.codec.received("stdout", b"\r\nDelete everything? (y/n) ")
    driven.say(Proceed())
    assert driven.sent == []


def test_two_questions_that_could_be_meant_are_none(drive, profile_text):
    twin = profile_text + "[[question]]\nname = 'any'\npattern = '[(]y/n[)] $'\nalways = 'y'\n"
    driven = drive(twin)
    driven.hear(ASKED)
    assert driven.asked == []
    assert driven.sent == []


SHOWN = """
name = "tui"
programs = ["tui"]
prompt = { by = "arguments", arguments = ["{prompt}"] }
[[question]]
name = "menu"
kinds = ["unknown"]
exact = false
pattern = 'Allow\\? *> yes +no$'
yes = "\\r"
no = "\\u001b[C\\r"
"""


def test_a_drawn_question_is_a_call_of_unknown_kind_and_an_animation_beside_it_does_not_matter(drive):
    driven = drive(SHOWN)
    draw = b"\x1b[2J\x1b[3;1Hrm -rf ~\x1b[5;1HAllow? > yes   no"
    looks = [driven.codec.received("stdout", draw)]
    for spin in b"|/-":
        driven.do(driven.codec.woke("look")[:-1])
        looks.append(driven.codec.received("stdout", b"\x1b[1;1H%c\x1b[5;18H" % spin))
    (call,) = driven.asked
    assert call.tool_kind == ToolKind.UNKNOWN
    assert "rm -rf ~" in call.input["screen"]
    driven.say(NO)
    assert driven.sent == [b"\x1b[C\r"]


TYPED = """
name = "typed"
programs = ["typed"]
prompt = { by = "keys", ready = "> $", begin = "say ", end = "\\n" }
ends = { quit = "exit\\n" }
"""


def test_a_typed_prompt_waits_until_the_agent_asks_for_it_and_the_next_prompt_is_the_end(drive):
    driven = drive(TYPED)
    assert driven.codec.start() == ()
    driven.do(driven.codec.prompt("x" * 200_000))
    assert driven.hear("loading...\n")[-1:] != [Ready()]
    assert driven.sent == []
    driven.hear("> ")
    assert driven.sent == [b"say " + b"x" * 200_000 + b"\n"]
    assert any(isinstance(action, Ready) for action in driven.actions)
    driven.hear("done\n> ")
    assert driven.sent[1:] == [b"exit\n"]
    assert driven.end(0).ending.text == "loading...\n> \ndone\n>"


def test_however_the_bytes_are_cut_the_same_comes_of_it(drive, profile_text):
    data = ("Tool 1.0\nhello\n" + ASKED).replace("\n", "\r\n").encode()
    whole = drive(profile_text)
    whole.hear(data)
    for size in (1, 3, 7):
        cut = drive(profile_text)
        for at in range(0, len(data), size):
            assert all(not isinstance(action, Emit) for action in cut.codec.received("stdout", data[at : at + size]))
        cut.do(cut.codec.woke("look"))
        assert cut.asked == whole.asked
        assert cut.events == whole.events


def test_a_flood_of_lines_is_shown_whole(driven):
    driven.hear(b"".join(b"%d\r\n" % number for number in range(20_000)))
    shown = "".join(event.text for event in driven.events if isinstance(event, TextDelta))
    assert shown == "".join(f"{number}\n" for number in range(20_000))


@pytest.mark.parametrize(
    ("code", "signal", "printed", "status", "reason"),
    [
        (0, None, "bye\n", "completed", None),
        (0, None, "good bye\n", "failed", "protocol"),
        (1, None, "bye\n", "failed", "crashed"),
        (None, 9, "bye\n", "failed", "crashed"),
    ],
)
def test_the_outcome_is_exit_status_and_marker(driven, code, signal, printed, status, reason):
    driven.hear("answer\n" + printed)
    ending = driven.end(code, signal).ending
    assert (ending.status, ending.reason) == (status, reason)
    assert ending.text == "answer\n" + printed.strip()


def test_the_last_screen_of_a_failed_run_is_told(driven):
    driven.hear("Continue (q to quit)? ")
    assert driven.codec.showing() == "Continue (q to quit)?"
    driven.end(None, 1)
    (notice,) = [event for event in driven.events if isinstance(event, Notice)]
    assert (notice.code, notice.message) == ("stdout_noise", "Continue (q to quit)?")


def test_every_call_has_a_request_and_an_end(driven):
    driven.hear(ASKED)
    driven.say(Proceed())
    driven.end(0)
    assert [event.tool_call_id for event in driven.events if isinstance(event, ToolRequested)] == ["question-1"]
    assert driven.ends == [("run", "ok")]


def test_files_tell_answer_failures_and_usage(drive, profile_text):
    text = profile_text.replace(
        'ends = { marker = "^bye$" }',
        r"""
[ends]
file = "log"
marker = "^end"
usage = '^in=(?P<input_tokens>\d+) out=(?P<output_tokens>\d+) (?P<cost_usd>[0-9.]+)'
failures = [{ pattern = "^error: (?P<message>.*)", reason = "overloaded" }]
[answer]
file = "chat"
pattern = '^AI\n(?P<text>(?:> .*\n)+)'
prefix = "> "
""",
    )
    log = b"in=3 out=4 0.5\nin=10 out=1 0.25\nend\n"
    ending = drive(text).end(0, files={"log": log, "chat": b"AI\n> first\nME\nAI\n> a\n> b\n"}).ending
    assert (ending.status, ending.text, ending.cost_usd) == ("completed", "a\nb", 0.75)
    assert (ending.usage.input_tokens, ending.usage.output_tokens, ending.usage.model_requests) == (13, 5, 2)
    ending = drive(text).end(0, files={"log": b"error: try later\nend\n"}).ending
    assert (ending.status, ending.reason, ending.message) == ("failed", "overloaded", "try later")
    assert drive(text).end(0, files={"log": b"end\n"}).ending.reason == "no_output"
    assert drive(text).end(0, files={}).ending.reason == "protocol"
