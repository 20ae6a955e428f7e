"""A guard of your own under test; `pytest --interlock-cli PATH` runs it against the real CLI, offline."""

from interlock import Allow, DenyCall, HookCall
from interlock_fixtures.guarded import GuardedRun
from interlock_fixtures.scripted_model import Text, ToolCall, Turn


class NoDeletes:
    name = "no-deletes"

    async def before(self, call: HookCall) -> Allow | DenyCall:
        return DenyCall(reason="nothing is deleted here") if "rm " in str(call.subject.command) else Allow()


def test_nothing_is_deleted(guarded_run: GuardedRun) -> None:
    script = [Turn(ToolCall("Bash", {"command": "rm -rf precious"})), Turn(Text("done"))]
    ran = guarded_run(script, NoDeletes(), files={"precious/file": "x"})
    assert (ran.workspace / "precious" / "file").exists()
    assert ["nothing is deleted here" in denial.reason for denial in ran.denials] == [True]
