"""A person's own login and configuration, and the words of a prompt: used as they are, and never changed."""

import json
import os
import stat
import time
from pathlib import Path

import anyio
import pytest

from interlock import Client, Deny, Reason, Status
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
ASK = {"posture": "none", "otherwise": "ask"}
TOKEN = "token-of-the-person"


def furnish(live) -> Path:
    """A home with a login, and with all that the person configured for themselves."""
    marks = live.folder / "marks"
    marks.mkdir()

    def program(name: str) -> str:
        path = live.folder / f"{name}.sh"
        path.write_text(f"#!/bin/sh\ntouch {marks / name}\n")
        path.chmod(0o755)
        return str(path)

    own = live.home / ".claude"
    for folder in (
        "commands",
        "skills/evil",
        "agents",
        "plugins/evil/hooks",
        "plugins/evil/.claude-plugin",
        "projects",
    ):
        (own / folder).mkdir(parents=True)
    hook = [{"matcher": "", "hooks": [{"type": "command", "command": program("hook")}]}]
    settings = {
        "permissions": {"allow": ["Bash", "Write", "Read"], "defaultMode": "acceptEdits"},
        "hooks": dict.fromkeys(("SessionStart", "PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop"), hook),
        "apiKeyHelper": program("helper"),
        "statusLine": {"type": "command", "command": program("status")},
        "env": {"TIGER": "tiger-lily"},
        "model": "tiger-lily-model",
        "enabledPlugins": {"evil": True},
    }
    (own / "settings.json").write_text(json.dumps(settings))
    (own / "CLAUDE.md").write_text("always say tiger-lily\n")
    described = "---\nname: evil\ndescription: tiger-lily\n---\ntiger-lily"
    for name in ("commands/evil.md", "agents/evil.md", "skills/evil/SKILL.md"):
        (own / name).write_text(described)
    (own / "plugins/evil/.claude-plugin/plugin.json").write_text(json.dumps({"name": "evil", "version": "1"}))
    (own / "plugins/evil/hooks/hooks.json").write_text(json.dumps({"hooks": settings["hooks"]}))
    login = {
        "accessToken": TOKEN,
        "refreshToken": "refresh",
        "expiresAt": int((time.time() + 86_400) * 1000),
        "scopes": ["user:inference"],
        "subscriptionType": "max",
    }
    (own / ".credentials.json").write_text(json.dumps({"claudeAiOauth": login}))
    (own / ".credentials.json").chmod(0o600)
    server = {"mcpServers": {"evil": {"command": program("server"), "args": []}}}
    (live.home / ".claude.json").write_text(json.dumps({**server, "hasCompletedOnboarding": True}))
    return marks


def picture(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that there is in a folder: names, bytes, times and modes."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(facts.st_mode) else b""
        found[str(path.relative_to(folder))] = (content, facts.st_mtime_ns, facts.st_mode, facts.st_ino)
    return found


async def test_a_persons_login_is_used_and_nothing_else_of_theirs_is_used_or_changed(live):
    marks = furnish(live)
    before = picture(live.home)
    script = [Turn(ToolCall("Bash", {"command": "touch made; echo $TIGER"}, "t1")), DONE]
    asked = []

    def respond(approval):
        asked.append(approval.call.subject.command)
        return Deny()

    with ScriptedModel(script) as model, anyio.fail_after(30):
        env = {"ANTHROPIC_BASE_URL": model.url}
        request = live.request(model, login="user", env=env, permission=ASK)
        async with Client(state=live.state).stream(request) as run:
            async for event in run:
                if event.type == "approval_requested":
                    run.respond(event.approval.id, respond(event.approval))
            outcome = await run.outcome()
        sent = [one for one in model.requests if one.kind == "turn"]
    assert outcome.ok, outcome
    assert {one.headers.get("authorization") for one in sent} == {f"Bearer {TOKEN}"}
    assert not any("x-api-key" in one.headers for one in sent)
    assert not any(b"tiger-lily" in one.raw for one in model.requests)
    assert asked == ["touch made; echo $TIGER"]
    assert list(marks.iterdir()) == []
    assert picture(live.home) == before
    assert TOKEN not in run.plan.to_json()
    with ScriptedModel([DONE]) as model, anyio.fail_after(30):
        env = {"ANTHROPIC_BASE_URL": model.url}
        session = {"kind": "resume", "id": outcome.session_id}
        request = live.request(model, "and again", login="user", env=env, session=session)
        resumed = await Client(state=live.state).run(request)
        (second,) = [one for one in model.requests if one.kind == "turn"]
    assert resumed.session_id == outcome.session_id
    assert b"touch made; echo $TIGER" in second.raw
    assert b"and again" in second.raw
    assert picture(live.home) == before


async def test_a_stray_key_in_the_environment_does_not_win_over_the_login(live, monkeypatch):
    furnish(live)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "stray-key")
    with ScriptedModel([DONE]) as model, anyio.fail_after(30):
        env = {"ANTHROPIC_BASE_URL": model.url}
        await Client(state=live.state).run(live.request(model, login="user", env=env))
        (sent,) = [one for one in model.requests if one.kind == "turn"]
    assert sent.headers["authorization"] == f"Bearer {TOKEN}"
    assert "x-api-key" not in sent.headers


async def test_without_any_login_the_run_fails_for_that_and_nothing_is_sent(live):
    with ScriptedModel([DONE]) as model, anyio.fail_after(30):
        env = {"ANTHROPIC_BASE_URL": model.url}
        outcome = await Client(state=live.state).run(live.request(model, login="user", env=env), check=False)
        assert [one for one in model.requests if one.kind == "turn"] == []
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.AUTH)


async def test_markers_of_a_surrounding_session_do_not_reach_the_agent(live, monkeypatch):
    for name in ("CLAUDECODE", "CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_ENTRYPOINT", "IS_SANDBOX", "AI_AGENT"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SOME_PASSWORD", "tiger-lily")
    monkeypatch.setenv("BASH_ENV", str(live.folder / "planted"))
    (live.folder / "planted").write_text(f"touch {live.workspace / 'planted'}\n")
    call = ToolCall("Bash", {"command": "env | grep -v KEY"}, "t1")
    played = await live.play([Turn(call), DONE], permission={"posture": "full"})
    seen = dict(line.split("=", 1) for line in played.result("t1").content.splitlines() if "=" in line)
    assert "SOME_PASSWORD" not in seen
    assert "CLAUDE_CODE_SIMPLE" not in seen
    assert "IS_SANDBOX" not in seen
    assert seen["HOME"] == str(live.home)
    assert not (live.workspace / "planted").exists()


PROMPTS = {
    "a path": "@secret.txt and @../outside.txt say",
    "a path in lines": 'look\n@secret.txt\n\t@"secret.txt"#L1-2\u00a0@secret.txt',
    "a command": "/compact now",
    "an unknown command": "/no-such-command at all",
    "a shell line": "!touch made",
    "a memory line": "# remember this",
    "odd text": "a\u2028b\u0085c\x0bd" + ' "quoted" \\ \U0001f600 ' + "x" * 5000,
    "blank ends": "  \n go \n\n",
}


@pytest.mark.parametrize("case", PROMPTS)
@pytest.mark.sampled
async def test_a_prompt_reaches_the_model_byte_for_byte_and_nothing_is_inlined(live, case):
    (live.workspace / "secret.txt").write_text("tiger-lily\n")
    (live.folder / "outside.txt").write_text("tiger-lily\n")
    played = await live.play([DONE], prompt=PROMPTS[case])
    (sent,) = [one for one in played.requests if one.kind == "turn"]
    texts = [
        block["text"]
        for message in sent.body["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else [{"text": message["content"]}])
        if "text" in block
    ]
    assert PROMPTS[case] in texts
    assert not played.knows(b"tiger-lily")
    assert not (live.workspace / "made").exists()
    assert played.outcome.ok


async def test_a_prompt_of_five_megabytes_arrives_whole_or_fails_for_its_size(live):
    prompt = "word " * 1_000_000
    played = await live.play([DONE], prompt=prompt)
    sent = [one for one in played.requests if one.kind == "turn"]
    if live.which == "oldest":
        assert played.outcome.ok
        assert json.dumps(prompt).encode() in sent[0].raw
    else:
        assert (played.outcome.status, played.outcome.reason, sent) == (Status.FAILED, Reason.CONTEXT, [])


async def test_the_private_folder_of_a_run_is_gone_after_it(live):
    played = await live.play([DONE])
    assert played.outcome.ok
    assert os.listdir(live.state / "runs") == []  # noqa: PTH208
