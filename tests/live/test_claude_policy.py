"""A policy file over a run of the real CLI, and what the audit of that run says."""

import pytest

from interlock import Allow, Modify
from interlock_adapters.cli.audit import Wanted, audit
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

POLICY = """
schema = 1
[permission]
posture = "edit"
allow = ["shell(touch made)"]
deny = ["write(secret/**)"]
[bounds]
posture = "edit"
"""


async def test_a_policy_decides_about_the_real_cli_and_its_audit_says_who_did(live, policy, capfd):
    path, log = live.folder / "policy.toml", live.folder / "audit.jsonl"
    path.write_text(POLICY, encoding="utf-8")

    def rewrite(call):
        if call.tool_kind != "write" or call.round == 2:
            return Allow()
        return Modify(input={**call.input, "content": "changed"}, reason="better so")

    secret, plain = (str(live.workspace / name) for name in ("secret/a", "plain"))
    script = [
        Turn(ToolCall("Bash", {"command": "touch made"}, "t1"), ToolCall("Bash", {"command": "touch other"}, "t2")),
        Turn(ToolCall("Write", {"file_path": secret, "content": "x"}, "t3")),
        Turn(ToolCall("Write", {"file_path": plain, "content": "x"}, "t4")),
        Turn(Text("done")),
    ]
    guard = policy(rewrite, name="guard")
    played = await live.play(script, guard, client={"policy": path, "audit": log})
    assert played.plan.policies == (f"the policy {path}",)
    assert played.unguarded() == []
    assert played.decisions() == {
        "t1": "allow by rule",
        "t2": "deny by policy",
        "t3": "deny by rule",
        "t4": "allow by posture",
    }
    assert sorted(found.name for found in live.workspace.iterdir()) == ["made", "plain"]
    assert (live.workspace / "plain").read_text(encoding="utf-8") == "changed"

    assert audit(Wanted(str(log))) == 0
    records, _, sums = capfd.readouterr().out.partition("\n\n")
    said = {tuple(line.split("\t")[index] for index in (4, 6, 8)) for line in records.splitlines()[1:]}
    assert {
        ("t1", "shell(touch made)", "allow"),
        ("t2", "policy", "deny"),
        ("t3", "write(secret/**)", "deny"),
        ("t4", "guard", "modify"),
        ("t4", "policy", "allow"),
    } <= said
    assert sums.splitlines()[0].startswith("participant\tbinding\tasked")
