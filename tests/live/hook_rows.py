"""Everything that a hook or an interceptor may do wrong: the command `touch ROW` names it, and the participant obeys.

`PROGRAM` is the hook, `ROWS` names what it does, `HARMLESS` what of it is no fault; `Wayward` is the interceptor, and
`INTERCEPTED` names what that does.
"""

import anyio

from interlock import Allow, DenyCall, Modify, Replace

PROGRAM = """
import json, os, signal, sys, time
asked = sys.stdin.read()
row = json.loads(asked)["input"]["command"].removeprefix("touch ")
deny = json.dumps({"decision": "deny", "reason": "the hook says no"})
allow = json.dumps({"decision": "allow"})
inside = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "r"}
nested = {"hookSpecificOutput": inside}

def say(text, code=0, error=""):
    sys.stderr.write(error)
    sys.stdout.write(text)
    sys.stdout.flush()
    os._exit(code)

match row:
    case "deny": say(deny)
    case "deny_exit_2_stderr": say(deny, 2, "words")
    case "exit_2_stderr": say("", 2, "blocked")
    case "exit_2_silent": say("", 2)
    case "deny_exit_1": say(deny, 1)
    case "exit_1": say("", 1)
    case "exit_127": say("", 127)
    case "allow_exit_1": say(allow, 1)
    case "killed": os.kill(os.getpid(), signal.SIGKILL)
    case "allow_then_killed":
        os.write(1, allow.encode())
        os.kill(os.getpid(), signal.SIGKILL)
    case "too_late":
        time.sleep(30)
        say(allow)
    case "allow_then_too_late":
        os.write(1, allow.encode())
        time.sleep(30)
    case "banner_then_deny": say("hello\\n" + deny)
    case "banner_then_allow": say("hello\\n" + allow)
    case "deny_then_line": say(deny + "\\nbye\\n")
    case "two_documents": say(allow + "\\n" + deny)
    case "two_allows": say(allow + "\\n" + allow)
    case "truncated": say(deny[:-5])
    case "nothing": say("")
    case "native_dialect": say(json.dumps(nested))
    case "no_event_name": say(json.dumps({"hookSpecificOutput": {"permissionDecision": "deny"}}))
    case "flat_dialect": say(json.dumps({"permissionDecision": "deny", "permissionDecisionReason": "r"}))
    case "echo": say(asked)
    case "ask": say(json.dumps({"decision": "ask", "reason": "r"}))
    case "upper_case": say(json.dumps({"decision": "ALLOW"}))
    case "null": say("null")
    case "true": say("true")
    case "list": say("[" + allow + "]")
    case "string": say(json.dumps(allow))
    case "deny_without_reason": say(json.dumps({"decision": "deny"}))
    case "modify_without_input": say(json.dumps({"decision": "modify"}))
    case "modify_to_text": say(json.dumps({"decision": "modify", "input": "touch made"}))
    case "modify_to_nothing": say(json.dumps({"decision": "modify", "input": {}}))
    case "replace_before": say(json.dumps({"decision": "replace", "output": "x"}))
    case "too_much": say(allow + " " * 80_000_000)
    case "allow": say(allow)
    case "rewritten": say(json.dumps({"decision": "modify", "input": {"command": "touch allow"}}))
"""

ROWS = [
    line.split('"')[1] for line in PROGRAM.splitlines() if line.lstrip().startswith("case ") and line.count('"') >= 2
]
HARMLESS = {"allow", "rewritten"}


class Liar(Exception):
    """What an interceptor may throw."""


INTERCEPTED = {
    "raises": "raises",
    "hangs": "hangs",
    "exits": "exits",
    "none": None,
    "true": True,
    "text": "allow",
    "document": {"decision": "allow"},
    "class": Allow,
    "replace_before": Replace(output="x"),
    "modify_to_text": Modify(input="touch made"),
    "modify_to_nothing": Modify(input={}),
    "modify_ever_further": "further",
    "deny": DenyCall(reason="no"),
}


class Wayward:
    """Obeys the name in the call."""

    name = "wayward"
    deadline = 0.3
    may = ("deny", "modify", "replace")

    async def before(self, call):
        row = call.input["command"].removeprefix("touch ").rstrip("+")
        answer = INTERCEPTED[row]
        match answer:
            case "raises":
                raise Liar(row)
            case "exits":
                raise SystemExit(0)
            case "hangs":
                return await anyio.sleep_forever()
            case "further":
                return Modify(input={"command": call.input["command"] + "+"})
            case _:
                return answer
