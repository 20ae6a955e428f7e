"""The push guard: what would leave something with others is denied, honest work is not."""

import pytest
from tests.guards.calls import call, shell

from interlock.errors import ConfigurationError
from interlock.hooks import Allow, DenyCall, HookCall
from interlock.tools import Subject, ToolKind
from interlock_adapters.guards import PushGuard

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git push origin main --force",
        "git -C /other push",
        "cd x && git push",
        "true; git push",
        "ls | xargs git push",
        "FOO=1 git push",
        "/usr/bin/git push",
        "sudo git push",
        "sh -c 'git push'",
        'bash -c "cd a && git push origin"',
        'git "push"',
        "git pu\\sh",
        "g'i't push",
        "$(echo git) push",
        "eval git push",
        "env -i git push",
        "timeout 5 git push",
        "npm publish --access public",
        "cargo publish",
        "python -m twine upload dist/*",
        "twine upload dist/*",
        "docker push image",
        "gh release create v1",
        "gh pr merge 3",
        "uv publish",
        "if true; then git push; fi",
        "git commit -m x && git push",
    ],
)
async def test_a_push_is_denied_however_it_is_written(command: str) -> None:
    answer = await PushGuard().before(shell(command))
    assert isinstance(answer, DenyCall), command
    assert answer.reason.startswith("pushing and publishing are left to people")


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git commit -m 'push it'",
        "git log --oneline | head",
        "npm test",
        "cargo build",
        "pytest -q",
        "docker build .",
        "gh pr view 3",
        "echo git push",
        "grep -rn 'git push' docs",
    ],
)
async def test_other_work_is_let_pass(command: str) -> None:
    assert await PushGuard().before(shell(command)) == Allow(), command


@pytest.mark.parametrize("kind", [ToolKind.SHELL_INPUT, ToolKind.UNKNOWN])
async def test_what_nobody_knows_is_judged_by_its_text(kind: ToolKind) -> None:
    def typed(text: str) -> HookCall:
        return call("Whatever", {"args": {"text": [text]}}).model_copy(update={"tool_kind": kind, "subject": Subject()})

    assert isinstance(await PushGuard().before(typed("cd x\ngit  push\n")), DenyCall)
    assert await PushGuard().before(typed("git status\n")) == Allow()


@pytest.mark.parametrize(
    ("tool", "denied"), [("push_files", True), ("create_pull_request", True), ("get_issue", False)]
)
async def test_tools_of_servers_are_judged_by_their_name(tool: str, denied: bool) -> None:
    answer = await PushGuard().before(call(f"mcp__github__{tool}", {}))
    assert isinstance(answer, DenyCall) is denied


async def test_commands_reason_and_tools_can_be_ones_own() -> None:
    guard = PushGuard(commands=["terraform apply"], tools=[], reason="ask first")
    answer = await guard.before(shell("terraform -chdir=x apply"))
    assert answer == DenyCall(reason="ask first (shell(terraform apply:*))")
    assert await guard.before(shell("git push")) == Allow()
    assert await guard.before(call("mcp__github__push_files", {})) == Allow()


def test_a_command_that_cannot_be_understood_is_an_error() -> None:
    with pytest.raises(ConfigurationError):
        PushGuard(commands=["git push | cat"])
