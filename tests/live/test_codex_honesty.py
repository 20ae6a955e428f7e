"""An honest run of the real Codex raises no alarm, whatever it does; and a hook that fails open is noticed."""

import json

import pytest

from interlock import Allow
from interlock_adapters.codex.app_server import hook_calls
from interlock_adapters.codex.app_server.answers import HookAnswer, answer_hook
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
DIRECT, CODE = "gpt-5.5", "gpt-6.2-sol"
BOTH_STYLES = pytest.mark.parametrize("model", [DIRECT, CODE])
COMMANDS = [
    "echo one; exit 3",
    "cat missing",
    "if",
    "cat <<'EOF'\nhere's\nEOF",
    "printf '\\377\\376\\0x'",
    "sleep 3 & echo started",
    "touch /proc/nothing",
    "head -c 300000 /dev/zero | tr '\\0' y",
    "(echo in; exit 4); echo $?",
    "printf '%s\\n' 'd\u00e9j\u00e0 \U0001f600'",
    "cd .. && pwd",
]
PATCHES = [
    "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch\n",
    "*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n@@\n-x\n+y\n*** End Patch\n",
    "*** Begin Patch\n*** Update File: nowhere.txt\n@@\n-x\n+y\n*** End Patch\n",
    "no patch at all",
    "*** Begin Patch\n*** Delete File: b.txt\n*** End Patch\n",
]


def call(model: str, name: str, given: object, call_id: str) -> ToolCall:
    if model == DIRECT:
        return ToolCall(name, {"input": given} if isinstance(given, str) else given, call_id)
    return ToolCall("exec", {"input": f"text(await tools.{name}({json.dumps(given)}))"}, call_id)


@BOTH_STYLES
@pytest.mark.parametrize("posture", ["edit", "full"])
@pytest.mark.sampled
async def test_an_honest_corpus_raises_no_alarm(codex, policy, model, posture):
    script = [Turn(call(model, "exec_command", {"cmd": text}, f"c{at}")) for at, text in enumerate(COMMANDS)]
    script += [Turn(call(model, "apply_patch", text, f"p{at}")) for at, text in enumerate(PATCHES)]
    script += [
        Turn(*(call(model, "exec_command", {"cmd": f"echo {at}"}, f"parallel{at}") for at in range(3))),
        Turn(call(model, "exec_command", {"cmd": "pwd", "workdir": "missing"}, "w1")),
        Turn(call(model, "exec_command", {"command": 5}, "bad")),
        Turn(call(model, "no_such_tool", {"x": 1}, "unknown")),
        DONE,
    ]
    guard = policy(after=lambda _: Allow())
    played = await codex.play(script, guard, model=model, permission={"posture": posture})
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    seen = [
        asked.input["command"] for asked in guard.calls if asked.event == "pre_tool_use" and asked.tool_name == "Bash"
    ]
    assert seen[: len(COMMANDS)] == COMMANDS


@BOTH_STYLES
@pytest.mark.parametrize("garbage", [b"garbage", b'{"decision": "deny"}'])
async def test_a_hook_that_fails_open_is_noticed(codex, policy, model, garbage, monkeypatch):
    def broken(asked, verdict, wrapping):
        right = answer_hook(asked, verdict, wrapping)
        return HookAnswer(garbage, right.passed, right.reason, right.shown, right.decided, right.told)

    monkeypatch.setattr(hook_calls, "answer_hook", broken)
    script = [Turn(call(model, "exec_command", {"cmd": "sleep 1; touch made"}, "c1")), DONE]
    played = await codex.play(script, policy(), model=model, permission={"posture": "edit"})
    assert played.unguarded()
    assert (played.outcome.ok, played.outcome.reason) == (False, "unguarded")
