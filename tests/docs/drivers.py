"""What is done with a Python block that only defines something: code that runs behind it, by the id of the block."""

RUN_MAIN = "import anyio\nanyio.run(main)\n"
CALL = """
from interlock import HookCall
def asked(tool_name="Bash", **fields):
    given = dict(event="pre_tool_use", workspace="/w", agent_id="main", tool_call_id="c", tool_name=tool_name, input={},
                 agent="claude", run_id="r", cwd="/w", tool_kind="shell", subject={}) | fields
    return HookCall.model_validate(given)
"""
DRIVERS = {
    "adapter:python1": """
place = Path.cwd().parent / "parrot"
for name in ("work", "state"):
    (place / name).mkdir(parents=True)
check(Path("examples/third_party/parrot").resolve(), place / "work", place / "state")
""",
    "approvals:python0": """
import anyio
from interlock import Permission
anyio.run(watch, Client(), Request(agent="claude", prompt="go", permission=Permission(otherwise="ask")))
""",
    "approvals-ui:python0": """
import anyio
from interlock import Client, Permission, Request
async def main():
    request = Request(agent="claude", prompt="go", permission=Permission(otherwise="ask"))
    async with Client() as client, client.stream(request) as run:
        async for event in run:
            if event.type == "approval_requested":
                (one,) = waiting([run])
                assert "made.txt" in one["display"]
                answer([run], one["id"], b'{"decision": "deny", "reason": "no"}')
                try:
                    answer([run], one["id"], b'{"decision": "approve"}')
                except NotOpen:
                    print("answered once")
anyio.run(main)
""",
    "batch:python0": RUN_MAIN,
    "guard:python0": CALL
    + """
import anyio
no = anyio.run(Migrations().before, asked("Edit", tool_kind="edit", subject={"paths": ["/w/migrations/1.py"]}))
assert no.decision == "deny", no
assert anyio.run(Migrations().before, asked(subject={"command": "rm migrations/1.py"})).decision == "deny"
assert anyio.run(Migrations().before, asked(subject={"command": "ls"})).decision == "allow"
""",
    "hooks:python0": CALL
    + """
import anyio
changed = anyio.run(Quiet().before, asked(input={"command": "ls", "description": "x"}))
assert changed.decision == "modify" and changed.input == {"command": "ls", "description": ""}
long = asked(event="post_tool_use", output="x" * 20_000, is_error=False)
assert anyio.run(Quiet().after, long).decision == "replace"
""",
    "index:python0": """
import anyio
anyio.run(application, Request(agent="claude", prompt="say hello"))
""",
    "migrating:python1": RUN_MAIN,
    "migrating:python5": RUN_MAIN,
    "quickstart:python1": """
import anyio
print("said", anyio.run(work, "go"))
""",
}
EXPECTED = {
    "README:python0": "claude run completed",
    "approvals:python0": "made.txt",
    "approvals-ui:python0": "answered once",
    "agents:python0": "mode",
    "index:python0": "run_finished",
    "migrating:python1": "Done.",
    "migrating:python3": "Done.\nDone.",
    "migrating:python5": "Done.",
    "quickstart:python0": "Done.",
    "quickstart:python1": "said Done.",
}
"""What must stand on stdout, for blocks that say something."""
