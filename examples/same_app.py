"""One application for every agent: `python examples/same_app.py --agent claude|codex|copilot "make hello.txt"`.

A guard, approvals at the keyboard, an outcome; only the word after `--agent` differs. `--yes` answers all approvals;
what stands after `--` goes to the agent's own command line.
"""

import argparse

import anyio

from interlock import (
    Allow,
    ApprovalRequested,
    Approve,
    Client,
    Deny,
    DenyCall,
    HookCall,
    Permission,
    Request,
    TextDelta,
    ToolDecided,
)


class NoPushes:
    """The same guard for every agent: it reads the vocabulary, not an agent's tool names."""

    name = "no-pushes"

    async def before(self, call: HookCall) -> Allow | DenyCall:
        pushes = "git push" in (call.subject.command or "")
        return DenyCall(reason="pushing is for people") if pushes else Allow()


async def main(words: argparse.Namespace) -> None:
    request = Request(
        agent=words.agent,
        prompt=words.prompt,
        binary=words.binary,
        env=dict(pair.split("=", 1) for pair in words.env),
        permission=Permission(posture="read", otherwise="ask"),
        extra_args=tuple(words.extra),
    )
    async with Client(interceptors=[NoPushes()]) as interlock, interlock.stream(request) as run:
        async for event in run:
            match event:
                case TextDelta(text=text):
                    print(text, end="", flush=True)
                case ApprovalRequested(approval=approval):
                    print(approval.display())
                    yes = words.yes or await anyio.to_thread.run_sync(input, "run it? [y/N] ") == "y"
                    run.respond(approval.id, Approve() if yes else Deny())
                case ToolDecided(decision="deny", reason=reason):
                    print(f"denied: {reason}")
                case _:
                    pass
        print(f"\n{(await run.outcome()).describe()}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agent", required=True)
    parser.add_argument("--yes", action="store_true")
    parser.add_argument("--binary")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("prompt")
    parser.add_argument("extra", nargs="*")
    return parser.parse_args()


if __name__ == "__main__":
    anyio.run(main, parsed())
