"""A hundred random chains against a plain model of the rules: order, composition, attribution, second look, at once."""

import random
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from interlock.engine.chain import Chain, ChainVerdict
from interlock.engine.participants import from_interceptor
from interlock.hooks import ALL_POWERS, Allow, DenyCall, HookCall, HookOutcome, Modify, Power
from interlock.tools import Subject, ToolKind

pytestmark = pytest.mark.anyio

ACTS = ("allow", "allow", "allow", "mark", "mark", "upper", "deny", "deny-marked", "raise", "powerless", "restless")


@dataclass
class Member:
    """A participant whose every act is a plain function of the text that it sees."""

    name: str
    act: str
    waits: int
    may: tuple[Power, ...]
    seen: dict[str, list[tuple[int, str]]] = field(default_factory=dict[str, list[tuple[int, str]]])

    async def before(self, call: HookCall) -> HookOutcome:
        assert isinstance(call.input, dict)
        text = call.input["command"]
        assert isinstance(text, str)
        self.seen.setdefault(call.tool_call_id, []).append((call.round, text))
        for _ in range(self.waits):
            await anyio.lowlevel.checkpoint()
        kind, new = self.answer(text)
        match kind:
            case "deny":
                return DenyCall(reason=f"no from {self.name}")
            case "modify":
                return Modify(input={"command": new}, reason=f"by {self.name}")
            case "raise":
                raise RuntimeError(self.name)
            case _:
                return Allow()

    def answer(self, text: str) -> tuple[str, str]:
        """What it does with a text."""
        match self.act:
            case "mark":
                return ("allow", text) if f"<{self.name}>" in text else ("modify", f"{text}<{self.name}>")
            case "upper":
                return ("modify", text.upper()) if text != text.upper() else ("allow", text)
            case "restless":
                return "modify", f"{text}~"
            case "deny":
                return "deny", text
            case "deny-marked":
                return ("deny", text) if "<" in text else ("allow", text)
            case "raise":
                return "raise", text
            case "powerless":
                return "modify", f"{text}!"
            case _:
                return "allow", text


@dataclass
class Expected:
    """What the rules say of one call."""

    text: str
    denied_by: str | None = None
    changed_by: list[str] = field(default_factory=list[str])
    asked: dict[str, list[tuple[int, str]]] = field(default_factory=dict[str, list[tuple[int, str]]])
    granted: bool = False


def expected(members: list[Member], text: str) -> Expected:
    """The rules of the chain, spelled out without any of its code."""
    found = Expected(text)
    for look in (1, 2):
        found.granted = False
        for member in members:
            found.asked.setdefault(member.name, []).append((look, found.text))
            kind, new = member.answer(found.text)
            forbidden = kind == "modify" and ("modify" not in member.may or look == 2)
            if kind in {"deny", "raise"} or forbidden:
                found.denied_by = member.name
                return found
            found.granted = found.granted or "grant" in member.may
            if kind == "modify":
                found.text = new
                found.changed_by.append(member.name)
        if not found.changed_by:
            break
    return found


def chain(chance: random.Random) -> list[Member]:
    members: list[Member] = []
    for number in range(chance.randint(1, 10)):
        act = chance.choice(ACTS if chance.random() < 0.5 else ("allow", "mark", "upper"))
        may: tuple[Power, ...] = ("deny",) if act == "powerless" else chance.choice([ALL_POWERS, ("deny", "modify")])
        members.append(Member(f"M{number}", act, chance.randrange(3), may))
    return members


def call(number: int, text: str) -> HookCall:
    return HookCall(
        event="pre_tool_use",
        workspace="/ws",
        agent_id="main",
        tool_call_id=f"t{number}",
        tool_name="Bash",
        input={"command": text},
        agent="claude",
        run_id="r",
        cwd="/ws",
        tool_kind=ToolKind.SHELL,
        subject=Subject(command=text),
    )


def rewritten(old: HookCall, new: Any) -> HookCall:
    return old.model_copy(update={"input": new, "subject": Subject(command=new["command"])})


def compare(verdict: ChainVerdict, wanted: Expected, members: list[Member], number: int) -> None:
    assert verdict.denied is (wanted.denied_by is not None)
    if wanted.denied_by is not None:
        assert f"interceptor {wanted.denied_by!r}" in verdict.reason
    else:
        assert verdict.call.input == {"command": wanted.text}
        assert verdict.granted is wanted.granted
    assert verdict.attribution == "; ".join(f"interceptor {name!r}: by {name}" for name in wanted.changed_by)
    assert {member.name: member.seen.get(f"t{number}", []) for member in members} == {
        member.name: wanted.asked.get(member.name, []) for member in members
    }
    assert [record.participant for record in verdict.records] == [
        member.name
        for look in (1, 2)
        for member in members
        for seen, _ in wanted.asked.get(member.name, [])
        if seen == look
    ]
    assert all(record.tool_call_id == f"t{number}" for record in verdict.records)


def _saw(wanted: Expected, member: Member, look: int) -> bool:
    return any(seen == look for seen, _ in wanted.asked.get(member.name, []))


@pytest.mark.parametrize("block", range(10))
async def test_random_chains_do_what_the_rules_say_under_ten_calls_at_once(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        members = chain(random.Random(seed))
        asked = Chain([from_interceptor(member, 5.0) for member in members])
        verdicts: dict[int, ChainVerdict] = {}

        async def one(number: int, asked: Chain = asked, verdicts: dict[int, ChainVerdict] = verdicts) -> None:
            verdicts[number] = await asked.before(
                call(number, f"call {number}"), rewrite=rewritten, forbids=lambda _: None
            )

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for number in range(10):
                    group.start_soon(one, number)
        for number in range(10):
            compare(verdicts[number], expected(members, f"call {number}"), members, number)
