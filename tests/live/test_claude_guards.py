"""Guards on the real agent: no push is run however it is written, and only true readers run unasked.

The `git` and the other programs of these tests are stand-ins on PATH that write down what they were called with.
"""

import shlex
from pathlib import Path

import pytest

from interlock import Approve, Deny, Status
from interlock.events import ApprovalRequested
from interlock_adapters.guards import PushGuard
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

EXAMPLES = Path(__file__).parents[2] / "examples" / "hooks"
DONE = Turn(Text("done"))
FULL = {"posture": "full"}


def bash(command: str, call_id: str | None = None) -> ToolCall:
    return ToolCall("Bash", {"command": command}, call_id or command)


@pytest.fixture
def programs(live, monkeypatch):
    """Puts programs on PATH that write down how they were called; gives what was written."""
    folder, called = live.folder / "bin", live.folder / "called"
    folder.mkdir()
    called.write_text("")

    def put(*names: str) -> Path:
        for name in names:
            (folder / name).write_text(
                f'#!/bin/sh\nprintf "%s\\n" "{name} $*" >>{shlex.quote(str(called))}\necho ran\n'
            )
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/local/bin:/usr/bin:/bin")
        return called

    return put


# ---- pushes ---------------------------------------------------------------------------------------------------------

PUSHES = [
    "git push",
    "git  push\torigin main --force",
    "git -C . --no-pager push",
    "git -c alias.x=push push",
    "git 'push'",
    "g''it pu\\sh",
    "git \\\n  push",
    "cd . && git push",
    "true; git push",
    "true & git push",
    "(git push)",
    "{ git push; }",
    "if true; then git push; fi",
    "! git push",
    "p() { git push; }; p",
    "A=1 git push",
    "command git push",
    "exec git push",
    "time git push",
    "nohup git push",
    "timeout 5 git push",
    "env -i PATH=$PATH git push",
    "sh -c 'git push'",
    'bash -c "cd . && git push origin"',
    "sh <<'END'\ngit push\nEND",
    "eval git push",
    'eval "git pu""sh"',
    "echo push | xargs git",
    "echo x | xargs -I{} git push {}",
    "find . -maxdepth 0 -exec git push \\;",
    "git $(echo push)",
    "$(echo git) push",
    "`echo git` push",
    "G=git; $G push",
    "x=push; git $x",
    "git p{us,}h",
    "git submodule foreach git push",
    "/usr/bin/env git push",
    "echo $(git push)",
    "cat <(git push)",
    "git send-pack . main",
]
GUARDS = {"in process": {"interceptors": (PushGuard(),)}, "example": {"hooks": str(EXAMPLES / "hooks.json")}}


async def test_no_push_is_run_however_it_is_written_while_other_commands_of_git_run(live, programs):
    called = programs("git")
    others = ["git status --short", "git commit -m 'do not push yet'", "git log --oneline | head -1"]
    script = [Turn(*(bash(command) for command in PUSHES)), Turn(*(bash(command) for command in others)), DONE]
    played = await live.play(script, client=GUARDS["in process"], permission=FULL)
    assert [
        line for line in called.read_text().splitlines() if {"push", "send-pack"} & {*line.split("-m")[0].split()}
    ] == []
    assert {denial.tool_call_id for denial in played.outcome.denials} == {*PUSHES}
    assert [played.result(command).content for command in others] == ["ran"] * len(others)
    assert {"git status --short", "git log --oneline"} <= {*called.read_text().splitlines()}
    assert (played.outcome.status, played.unguarded()) == (Status.COMPLETED, [])


@pytest.mark.parametrize("claude_which", ["newest"], indirect=True)
async def test_the_example_guard_in_the_shell_lets_no_plain_push_run(live, programs):
    called = programs("git")
    plain = [command for command in PUSHES if "push" in command.partition("git")[2].replace("'", "")]
    script = [Turn(*(bash(command) for command in plain)), Turn(bash("git status")), DONE]
    played = await live.play(script, client=GUARDS["example"], permission=FULL)
    assert [line for line in called.read_text().splitlines() if "push" in line] == []
    assert {denial.tool_call_id for denial in played.outcome.denials} == {*plain}
    assert (played.result("git status").content, played.unguarded()) == ("ran", [])


# ---- readers --------------------------------------------------------------------------------------------------------

ONLY_LOOK_HARMLESS = {
    "git": ["git status", "git diff", "git grep x", "git ls-files", "git log", "git show", "git --version"],
    "rg": ["rg x", "rg --files"],
    "find": ["find . -name a.txt", "cat a.txt | find ."],
    "sed": ["sed -n 1p a.txt"],
    "awk": ["awk 1 a.txt"],
    "sort": ["sort a.txt", "cat a.txt | sort"],
    "env": ["env", "env cat a.txt"],
    "xargs": ["echo a.txt | xargs cat"],
    "less": ["less a.txt"],
    "diff": ["diff a.txt a.txt"],
}
ALSO_ASKED = [
    "cat a.txt > copy",
    "cat $(echo a.txt)",
    "cat ~/x",
    "cat ../x",
    "./cat a.txt",
    "A=1 cat a.txt",
    "cat *.txt",
]
READERS = {
    "cat a.txt": "one\ntwo",
    "cat a.txt | head -n 1": "one",
    "cat a.txt | tail -1 | wc -l": "1",
    "ls": "a.txt",
    "pwd && cat a.txt": None,
    "head -1 a.txt; echo on": "one\non",
}


async def test_what_only_looks_like_a_reader_is_asked_about_and_readers_run_until_another_command_ran(live, programs):
    called = programs(*ONLY_LOOK_HARMLESS)
    (live.workspace / "a.txt").write_text("one\ntwo\n")
    asked = [command for commands in ONLY_LOOK_HARMLESS.values() for command in commands] + ALSO_ASKED
    ask = {"posture": "read", "otherwise": "ask"}
    script = [
        *(Turn(bash(command)) for command in READERS),
        *(Turn(bash(command)) for command in asked),
        Turn(bash("cat a.txt", "still")),
        Turn(bash("true; printf x", "other")),
        Turn(bash("cat a.txt", "void")),
        Turn(ToolCall("Read", {"file_path": str(live.workspace / "a.txt")}, "read")),
        DONE,
    ]

    def respond(approval):
        return Approve() if approval.call.input["command"] == "true; printf x" else Deny(reason="no")

    played = await live.play(script, respond=respond, permission=ask)
    approvals = [event.approval.call.tool_call_id for event in played.of(ApprovalRequested)]
    assert approvals == [*asked, "other", "void"]
    for command, said in READERS.items():
        assert played.result(command).content == (said or f"{live.workspace}\none\ntwo")
    assert (played.result("still").content, played.result("other").content) == ("one\ntwo", "x")
    assert "one" in played.result("read").content
    ran = {line.strip() for line in called.read_text().splitlines()}
    assert ran & {*asked} <= {"env"}, "the agent itself asks for its variables when it starts"
    assert sorted(path.name for path in live.workspace.iterdir()) == ["a.txt"]
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_shell_snapshot_planted_in_the_agents_home_does_not_run_in_the_next_run(live):
    """The command changes what its own agent runs before each command, and leaves the same for later ones."""
    (live.workspace / "a.txt").write_text("one\n")
    mark = live.folder / "planted"
    function = f"cat() {{ command touch {mark}; }}"
    plant = (
        "home=$(tr '\\0' '\\n' </proc/$PPID/environ | sed -n 's/^CLAUDE_CONFIG_DIR=//p'); "
        f"cd $home/shell-snapshots && for one in *.sh snapshot-bash-9999999999999-zzzzzz.sh; do "
        f"echo {shlex.quote(function)} >>$one; done; ls"
    )
    script = [Turn(bash(plant, "plant")), Turn(bash("cat a.txt", "own")), DONE]
    first = await live.play(script, permission=FULL)
    assert "snapshot-bash" in first.result("plant").content
    mark.unlink(missing_ok=True)
    session = {"kind": "resume", "id": first.outcome.session_id}
    for fields in ({}, {"session": session, "permission": {"posture": "read", "allow": ["shell(cat:*)"]}}):
        given = {"permission": {"posture": "read"}, **fields}
        played = await live.play([Turn(bash("cat a.txt", "next")), DONE], **given)
        assert played.result("next").content == "one"
        assert not mark.exists()
