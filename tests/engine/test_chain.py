"""The eleven rules of the chain, and every way in which a participant can break: each is a denial."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
import pytest

from interlock.engine.asking import CALL_FIELDS, RECORD_FIELDS
from interlock.engine.chain import Chain, ChainVerdict
from interlock.engine.participants import BrokenAnswer, Participant, from_interceptor, from_program
from interlock.errors import ConfigurationError
from interlock.hooks import (
    ALL_POWERS,
    Allow,
    AuditRecord,
    DenyCall,
    HookCall,
    HookOutcome,
    HookSpec,
    Modify,
    Power,
    Replace,
)
from interlock.model import JsonValue, digest
from interlock.tools import Subject, ToolKind

pytestmark = pytest.mark.anyio

Answer = Callable[[HookCall], Awaitable[Any]]


class Guard:
    """An interceptor that answers as it is told, and remembers what it was asked."""

    def __init__(self, name: str, before: Any = None, after: Any = None, **more: Any) -> None:
        self.name = name
        self.asked: list[HookCall] = []
        self._before, self._after = before, after
        if before is None:
            self.before = None
        if after is None:
            self.after = None
        for attribute, value in more.items():
            setattr(self, attribute, value)

    async def before(self, call: HookCall) -> HookOutcome:
        return await self._answer(call, self._before)

    async def after(self, call: HookCall) -> HookOutcome:
        return await self._answer(call, self._after)

    async def _answer(self, call: HookCall, said: Any) -> HookOutcome:
        self.asked.append(call.model_copy(deep=True))
        if callable(said):
            said = said(call)
            if isinstance(said, Awaitable):
                said = await said
        return cast("HookOutcome", said)


def bash(command: JsonValue = "ls", *, event: str = "pre_tool_use", **more: Any) -> HookCall:
    fields: dict[str, Any] = {
        "event": event,
        "workspace": "/ws",
        "agent_id": "main",
        "tool_call_id": "t1",
        "tool_name": "Bash",
        "input": {"command": command, "env": {"a": [1]}},
        "agent": "claude",
        "run_id": "r1",
        "cwd": "/ws",
        "tool_kind": ToolKind.SHELL,
        "subject": Subject(command=command if isinstance(command, str) else None),
        **more,
    }
    return HookCall.model_validate(fields)


def ran(output: JsonValue = "out", *, is_error: bool = False) -> HookCall:
    return bash(event="post_tool_use", output=output, is_error=is_error)


def chain_of(*guards: Any, limit: float = 60.0, default: float = 5.0) -> Chain:
    return Chain(
        [one if isinstance(one, Participant) else from_interceptor(one, default) for one in guards],
        limit=limit,
        clock=lambda: 12.0,
    )


def rewritten(call: HookCall, new: JsonValue) -> HookCall:
    command = new.get("command") if isinstance(new, dict) else None
    subject = Subject(command=command if isinstance(command, str) else None)
    return call.model_copy(update={"input": new, "subject": subject})


async def ask(chain: Chain, call: HookCall, forbids: Callable[[HookCall], str | None] = lambda _: None) -> ChainVerdict:
    with anyio.fail_after(10):
        if call.event == "pre_tool_use":
            return await chain.before(call, rewrite=rewritten, forbids=forbids)
        return await chain.after(call)


def command(text: str) -> Modify:
    return Modify(input={"command": text})


def prefixed(word: str) -> Callable[[HookCall], Modify]:
    """An idempotent rewriter."""

    def rewrite(call: HookCall) -> Modify:
        old = cast("dict[str, str]", call.input)["command"]
        return command(old if word in old.split() else f"{word} {old}")

    return rewrite


def decisions(verdict: ChainVerdict) -> list[tuple[str, str]]:
    return [(record.participant, record.decision) for record in verdict.records]


# ---- The rules ------------------------------------------------------------------------------------------------------


async def test_rule_1_the_first_deny_wins_and_nobody_after_is_asked() -> None:
    first, second, third = Guard("a", Allow()), Guard("b", DenyCall(reason="no pushes")), Guard("c", Allow())
    verdict = await ask(chain_of(first, second, third), bash())
    assert verdict.denied
    assert verdict.says == "denied"
    assert verdict.reason == "denied by interceptor 'b': no pushes"
    assert verdict.asked == ("interceptor 'a'", "interceptor 'b'")
    assert not third.asked


async def test_rule_2_rewrites_compose_and_the_whole_chain_sees_the_final_input_once_more() -> None:
    first, second = Guard("a", prefixed("nice")), Guard("b", prefixed("timeout"))
    watcher = Guard("c", Allow())
    verdict = await ask(chain_of(first, second, watcher), bash())
    assert not verdict.denied
    assert verdict.changed
    assert verdict.call.input == {"command": "timeout nice ls"}
    assert [call.input for call in second.asked] == [{"command": "nice ls"}, {"command": "timeout nice ls"}]
    assert [call.round for call in watcher.asked] == [1, 2]
    assert [call.subject.command for call in watcher.asked] == ["timeout nice ls"] * 2
    assert [call.input for call in first.asked][1] == {"command": "timeout nice ls"}


async def test_rule_2_a_later_participant_may_still_refuse_a_rewritten_call() -> None:
    refuses = Guard("b", lambda call: DenyCall(reason="x") if "nice" in str(call.input) else Allow())
    verdict = await ask(chain_of(Guard("a", prefixed("nice")), refuses), bash())
    assert verdict.denied
    assert verdict.call.input == {"command": "nice ls"}
    assert verdict.attribution == "interceptor 'a'"


async def test_rule_2_an_earlier_participant_may_refuse_in_the_second_look() -> None:
    refuses = Guard("a", lambda call: DenyCall(reason="x") if call.round == 2 else Allow())
    verdict = await ask(chain_of(refuses, Guard("b", prefixed("nice"))), bash())
    assert verdict.reason == "denied by interceptor 'a': x"


async def test_rule_2_whoever_changes_the_final_input_again_denies_and_is_named() -> None:
    grows = Guard("grows", lambda call: command(cast("dict[str, str]", call.input)["command"] + " x"))
    verdict = await ask(chain_of(Guard("a", Allow()), grows), bash())
    assert verdict.denied
    assert "interceptor 'grows'" in verdict.reason
    assert "not idempotent" in verdict.reason


async def test_rule_2_two_rewriters_that_fight_are_a_denial() -> None:
    verdict = await ask(chain_of(Guard("a", command("x")), Guard("b", command("y"))), bash())
    assert verdict.denied
    assert "interceptor 'a'" in verdict.reason


async def test_rule_2_a_modify_equal_to_the_input_is_an_allow() -> None:
    same = Guard("a", lambda call: Modify(input=call.input))
    verdict = await ask(chain_of(same), bash())
    assert not verdict.denied
    assert not verdict.changed
    assert decisions(verdict) == [("a", "allow")]


@pytest.mark.parametrize("almost", [True, 1.0, "1"])
async def test_rule_2_equal_means_the_same_json_types_included(almost: JsonValue) -> None:
    guard = Guard("a", Modify(input={"n": almost}))
    verdict = await ask(chain_of(guard), bash(input={"n": 1}))
    assert verdict.changed


async def test_rule_2_a_rewritten_input_that_runs_into_a_deny_rule_is_not_looked_at_again() -> None:
    guard = Guard("a", command("git push"))

    def forbids(call: HookCall) -> str | None:
        return "shell(git push:*)" if call.subject.command == "git push" else None

    verdict = await ask(chain_of(guard), bash(), forbids)
    assert verdict.rule == "shell(git push:*)"
    assert verdict.denied
    assert len(guard.asked) == 1


async def test_rule_2_an_input_that_a_person_edited_may_not_be_changed_at_all() -> None:
    assert (await ask(chain_of(Guard("a", prefixed("nice"))), bash(round=2))).denied
    fine = await ask(chain_of(Guard("a", prefixed("nice"))), bash("nice ls", round=2, input={"command": "nice ls"}))
    assert not fine.denied


async def test_rule_3_nobody_objected_is_not_nobody_was_asked() -> None:
    assert (await ask(chain_of(), bash())).says == "nobody_asked"
    other = Guard("a", DenyCall(reason="x"), tools=("mcp",))
    assert (await ask(chain_of(other), bash())).says == "nobody_asked"
    assert (await ask(chain_of(Guard("a", Allow())), bash())).says == "no_objection"


async def test_rule_3_a_rewrite_names_everybody_who_changed_something() -> None:
    narrow = Guard("b", lambda call: command("ls .") if call.round == 1 else Allow())
    narrow_reason = Guard("c", lambda call: Modify(input={"command": "ls ./x"}, reason="narrowed"))
    verdict = await ask(chain_of(Guard("a", Allow()), narrow, narrow_reason), bash())
    assert verdict.attribution == "interceptor 'b'; interceptor 'c': narrowed"


@pytest.mark.parametrize(
    ("event", "power", "answer"),
    [
        ("pre_tool_use", "deny", DenyCall(reason="x")),
        ("pre_tool_use", "modify", command("x")),
        ("post_tool_use", "deny", DenyCall(reason="x")),
        ("post_tool_use", "replace", Replace(output="x")),
    ],
)
async def test_rule_4_an_answer_outside_the_powers_is_broken(event: str, power: Power, answer: HookOutcome) -> None:
    others = tuple(one for one in ALL_POWERS if one != power)
    call = bash() if event == "pre_tool_use" else ran()
    verdict = await ask(chain_of(Guard("a", answer, answer, may=others)), call)
    assert verdict.denied
    assert "could not answer" in verdict.reason
    assert verdict.records[0].broken


async def test_rule_4_a_grant_is_a_power_that_is_only_given() -> None:
    assert (await ask(chain_of(Guard("a", Allow())), bash())).says == "no_objection"
    granting = Guard("a", Allow(), may=("grant",))
    verdict = await ask(chain_of(granting, Guard("b", Allow())), bash())
    assert verdict.says == "granted"
    assert decisions(verdict) == [("a", "grant"), ("b", "allow")]


async def test_rule_4_a_grant_counts_only_if_nobody_objects() -> None:
    granting = Guard("a", Allow(), may=("grant",))
    assert (await ask(chain_of(granting, Guard("b", DenyCall(reason="x"))), bash())).says == "denied"


async def test_rule_4_a_grant_is_for_the_final_input() -> None:
    once = Guard("a", Allow(), may=("grant",), tools=("Bash",))
    verdict = await ask(chain_of(once, Guard("b", prefixed("nice"))), bash())
    assert verdict.says == "granted"
    assert [call.input for call in once.asked] == [bash().input, {"command": "nice ls"}]


async def test_rule_4_the_needs_of_a_chain_follow_from_powers_and_methods() -> None:
    needs = chain_of(Guard("a", Allow())).needs(answered=True)
    assert (needs.chain_before, needs.chain_after, needs.modify, needs.replace, needs.grants, needs.answered) == (
        *(True, False, True, False, False, True),
    )
    needs = chain_of(Guard("a", Allow(), may=("deny",)), Guard("b", None, Allow())).needs(answered=False)
    assert (needs.chain_before, needs.chain_after, needs.modify, needs.replace) == (True, True, False, True)
    assert chain_of(Guard("a", Allow(), may=("grant",))).needs(answered=False).grants
    assert not chain_of().needs(answered=False).chain_before


async def hangs(_: HookCall) -> HookOutcome:
    await anyio.sleep_forever()
    return Allow()


async def swallows_its_cancellation(_: HookCall) -> HookOutcome:
    try:
        await anyio.sleep_forever()
    except BaseException:  # noqa: BLE001
        return Allow()
    return Allow()


async def fails_in_a_group_when_cancelled(_: HookCall) -> HookOutcome:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)
        try:
            await anyio.sleep_forever()
        finally:
            raise RuntimeError("on the way out")
    return Allow()


def blocks(_: HookCall) -> HookOutcome:
    time.sleep(0.3)
    return Allow()


def raising(error: BaseException) -> Callable[[HookCall], Any]:
    def answer(_: HookCall) -> HookOutcome:
        raise error

    return answer


def mutates(call: HookCall) -> HookOutcome:
    cast("dict[str, Any]", call.input)["env"]["a"].append(2)
    return Allow()


def cyclic(_: HookCall) -> HookOutcome:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    return Modify.model_construct(input=loop)


class NotAsync:
    name = "not async"

    def before(self, _: HookCall) -> HookOutcome:
        return Allow()


class TakesNothing:
    name = "takes nothing"

    async def before(self) -> HookOutcome:
        return Allow()


BREAKS: dict[str, Any] = {
    "raises": raising(ValueError("boom")),
    "raises KeyError": raising(KeyError("x")),
    "raises an assertion": raising(AssertionError()),
    "raises a group": raising(ExceptionGroup("g", [ValueError("x")])),
    "raises RecursionError": raising(RecursionError()),
    "raises StopIteration": raising(StopIteration()),
    "raises StopAsyncIteration": raising(StopAsyncIteration()),
    "exits": raising(SystemExit(0)),
    "interrupts": raising(KeyboardInterrupt()),
    "raises a bare BaseException": raising(BaseException("x")),
    "raises TimeoutError": raising(TimeoutError()),
    "hangs": hangs,
    "swallows its cancellation": swallows_its_cancellation,
    "fails when cancelled": fails_in_a_group_when_cancelled,
    "blocks the loop past its deadline": blocks,
    "answers nothing": lambda _: None,
    "answers true": lambda _: True,
    "answers text": lambda _: "allow",
    "answers a dict": lambda _: {"decision": "allow"},
    "answers the class": lambda _: Allow,
    "answers an object that looks right": lambda _: type("Allow", (), {"decision": "allow", "reason": ""})(),
    "answers its input": lambda call: call,
    "replaces before the call": Replace(output="x"),
    "modifies with text": Modify(input="ls"),
    "modifies with null": Modify(input=None),
    "modifies with a list": Modify(input=[]),
    "modifies with NaN": Modify(input={"x": float("nan")}),
    "modifies with no JSON": lambda _: Modify.model_construct(input={"x": object()}),
    "modifies with a key that is no text": lambda _: Modify.model_construct(input={1: 2}),
    "modifies with a lone surrogate": lambda _: Modify.model_construct(input={"x": "\ud800"}),
    "modifies with a cycle": cyclic,
    "denies with a reason that is no text": lambda _: DenyCall.model_construct(reason=7),
    "allows with a reason that is no text": lambda _: Allow.model_construct(reason=7),
    "denies without a reason": lambda _: DenyCall.model_construct(),
    "changes the call in place": mutates,
}


@pytest.mark.parametrize("way", list(BREAKS))
async def test_rule_5_a_broken_participant_denies(way: str) -> None:
    after = Guard("after", Allow())
    verdict = await ask(chain_of(Guard("bad", BREAKS[way]), after, default=0.1), bash())
    assert verdict.denied, way
    assert verdict.reason.startswith("interceptor 'bad' could not answer and denies on failure: "), verdict.reason
    assert [(record.decision, record.broken) for record in verdict.records] == [("deny", True)]
    assert not after.asked


@pytest.mark.parametrize("guard", [NotAsync(), TakesNothing()])
async def test_rule_5_a_method_of_the_wrong_shape_denies(guard: Any) -> None:
    verdict = await ask(chain_of(guard), bash())
    assert verdict.denied
    assert verdict.records[0].broken


@pytest.mark.parametrize("way", [*list(BREAKS)[:22], "modify"])
async def test_rule_5_a_broken_participant_withholds_the_output(way: str) -> None:
    broken = command("x") if way == "modify" else BREAKS[way]
    verdict = await ask(chain_of(Guard("bad", None, broken), default=0.1), ran())
    assert verdict.denied, way
    assert verdict.records[0].broken


async def test_rule_5_what_the_model_is_told_does_not_quote_the_exception() -> None:
    verdict = await ask(chain_of(Guard("bad", BREAKS["raises"])), bash())
    assert verdict.reason.endswith("it raised ValueError")
    assert verdict.records[0].reason == "it raised ValueError (boom)"


async def test_rule_5_a_rewrite_that_cannot_be_read_is_broken() -> None:
    def unreadable(call: HookCall, new: JsonValue) -> HookCall:
        raise KeyError(call.tool_name, new)

    verdict = await chain_of(Guard("a", command("x"))).before(bash(), rewrite=unreadable, forbids=lambda _: None)
    assert verdict.denied
    assert verdict.call.input == bash().input


def program(spec: HookSpec, ask_it: Any) -> Participant:
    return from_program(spec, ask_it)


async def breaks(_: HookCall) -> HookOutcome:
    raise BrokenAnswer("it exited with code 1", "Traceback ...")


async def test_rule_5_a_hook_that_may_fail_lets_pass_and_never_grants() -> None:
    spec = HookSpec(name="h", command=("x",), on_failure="allow", may=("deny", "grant"))
    verdict = await ask(chain_of(program(spec, breaks), Guard("b", Allow())), bash())
    assert verdict.says == "no_objection"
    assert [(record.decision, record.broken) for record in verdict.records] == [("allow", True), ("allow", False)]
    assert verdict.records[0].reason == "it exited with code 1 (Traceback ...)"


async def test_rule_5_a_hook_that_may_fail_and_hangs_does_not_end_the_chain() -> None:
    spec = HookSpec(name="h", command=("x",), on_failure="allow", timeout=0.05)
    denies = Guard("b", DenyCall(reason="still asked"))
    verdict = await ask(chain_of(program(spec, hangs), denies), bash())
    assert verdict.reason == "denied by interceptor 'b': still asked"
    verdict = await ask(chain_of(program(spec, hangs), program(spec, hangs), Guard("b", Allow())), bash())
    assert verdict.says == "no_objection"


async def test_rule_5_a_hook_that_may_fail_still_denies_where_it_meant_to() -> None:
    async def malformed_deny(_: HookCall) -> HookOutcome:
        raise BrokenAnswer("it answered deny without a `reason`", denies=True)

    spec = HookSpec(name="h", command=("x",), on_failure="allow")
    assert (await ask(chain_of(program(spec, malformed_deny)), bash())).denied
    outside = HookSpec(name="h", command=("x",), on_failure="allow", may=("modify",))

    async def denies(_: HookCall) -> HookOutcome:
        return DenyCall(reason="x")

    assert (await ask(chain_of(program(outside, denies)), bash())).denied


async def test_rule_6_each_participant_has_a_deadline_of_its_own() -> None:
    async def takes_a_while(_: HookCall) -> HookOutcome:
        await anyio.sleep(0.15)
        return Allow()

    patient = Guard("patient", takes_a_while, deadline=5)
    assert not (await ask(chain_of(patient, default=0.05), bash())).denied
    verdict = await ask(chain_of(patient, Guard("hasty", takes_a_while), default=0.05), bash())
    assert verdict.reason.startswith("interceptor 'hasty' could not answer")
    assert "within 0.05 s" in verdict.reason


async def test_rule_6_the_chain_has_a_deadline_that_nobody_may_let_pass() -> None:
    spec = HookSpec(name="h", command=("x",), on_failure="allow", timeout=60)
    verdict = await ask(chain_of(program(spec, hangs), Guard("b", Allow()), limit=0.05), bash())
    assert verdict.denied
    assert "the whole chain gave no answer within 0.05 s" in verdict.reason


async def test_rule_6_participants_in_time_each_may_be_too_late_together() -> None:
    async def takes_a_while(_: HookCall) -> HookOutcome:
        await anyio.sleep(0.06)
        return Allow()

    verdict = await ask(chain_of(*(Guard(str(n), takes_a_while) for n in range(20)), limit=0.2), bash())
    assert verdict.denied
    assert len(verdict.asked) < 20


async def test_rule_6_being_cancelled_from_outside_is_no_answer_and_goes_on_outwards() -> None:
    entered = anyio.Event()
    verdicts: list[ChainVerdict] = []

    async def waits(_: HookCall) -> HookOutcome:
        entered.set()
        await anyio.sleep_forever()
        return Allow()

    async def asks() -> None:
        verdicts.append(await chain_of(Guard("a", waits)).before(bash(), rewrite=rewritten, forbids=lambda _: None))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(asks)
            await entered.wait()
            group.cancel_scope.cancel()
    assert not verdicts


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_rule_5_awaiting_a_cancelled_task_is_broken_and_not_a_cancellation() -> None:
    async def awaits_a_cancelled_task(_: HookCall) -> HookOutcome:
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task
        return Allow()

    verdict = await ask(chain_of(Guard("a", awaits_a_cancelled_task)), bash())
    assert verdict.denied
    assert "CancelledError" in verdict.reason


async def test_rule_7_after_the_call_a_deny_withholds_and_a_replace_composes() -> None:
    def upper(call: HookCall) -> Replace:
        return Replace(output=str(call.output).upper(), reason="louder")

    first, second = Guard("a", None, upper), Guard("b", None, lambda call: Replace(output=[call.output], is_error=True))
    watcher = Guard("c", None, Allow())
    verdict = await ask(chain_of(first, second, watcher), ran("out"))
    assert (verdict.call.output, verdict.call.is_error) == (["OUT"], True)
    assert verdict.attribution == "interceptor 'a': louder; interceptor 'b'"
    assert (watcher.asked[0].output, watcher.asked[0].is_error) == (["OUT"], True)
    assert len(first.asked) == 1
    denied = await ask(chain_of(first, Guard("b", None, DenyCall(reason="secret"))), ran())
    assert denied.reason == "denied by interceptor 'b': secret"


@pytest.mark.parametrize("is_error", [True, False])
async def test_rule_7_a_replace_without_a_verdict_keeps_the_tools_own(is_error: bool) -> None:
    verdict = await ask(chain_of(Guard("a", None, Replace(output="x"))), ran(is_error=is_error))
    assert verdict.call.is_error is is_error


@pytest.mark.parametrize(
    ("globs", "concerned"),
    [
        (("Bash",), True),
        (("bash",), True),
        (("SHELL",), True),
        (("B*",), True),
        (("*",), True),
        (("Read", "shell"), True),
        (("Bas",), False),
        (("shell_input",), False),
        (("mcp*",), False),
    ],
)
async def test_rule_8_participants_choose_calls_by_kind_or_name(globs: tuple[str, ...], concerned: bool) -> None:
    verdict = await ask(chain_of(Guard("a", DenyCall(reason="x"), tools=globs)), bash())
    assert verdict.denied is concerned


@pytest.mark.parametrize("glob", ["edit", "write", "patch"])
async def test_rule_8_a_participant_for_edits_is_asked_about_every_change(glob: str) -> None:
    call = bash(tool_kind=ToolKind.PATCH, tool_name="apply_patch")
    assert (await ask(chain_of(Guard("a", DenyCall(reason="x"), tools=(glob,))), call)).denied


async def test_rule_8_events_choose_when_a_participant_is_asked() -> None:
    guard = Guard("a", DenyCall(reason="x"), DenyCall(reason="x"), events=("post_tool_use",))
    assert not (await ask(chain_of(guard), bash())).denied
    assert (await ask(chain_of(guard), ran())).denied


async def test_rule_8_what_a_participant_holds_on_to_nobody_else_sees_change() -> None:
    kept: list[Any] = []

    def keeps(call: HookCall) -> HookOutcome:
        kept.append(call.input)
        new: dict[str, Any] = {"command": "safe", "more": ["x"]}
        kept.append(new)
        return Modify(input=new) if call.round == 1 else Allow()

    def tampers(call: HookCall) -> HookOutcome:
        for one in kept:
            one["command"] = "rm -rf /"
        vars(call)["tool_name"] = "Other"
        return Allow()

    watcher = Guard("c", Allow())
    verdict = await ask(chain_of(Guard("a", keeps), Guard("b", tampers), watcher), bash())
    assert not verdict.denied
    assert verdict.call.input == {"command": "safe", "more": ["x"]}
    assert verdict.call.tool_name == "Bash"
    assert {cast("dict[str, Any]", call.input)["command"] for call in watcher.asked} == {"safe"}


async def test_rule_8_changing_ones_own_copy_and_answering_with_it_is_a_modify() -> None:
    def changes(call: HookCall) -> HookOutcome:
        cast("dict[str, Any]", call.input)["command"] = "ls -l"
        return Modify(input=call.input)

    verdict = await ask(chain_of(Guard("a", changes)), bash())
    assert verdict.call.input == {"command": "ls -l", "env": {"a": [1]}}


async def test_rule_9_a_hook_is_asked_with_the_same_call_as_an_interceptor() -> None:
    seen: list[HookCall] = []

    async def remembers(call: HookCall) -> HookOutcome:
        seen.append(call)
        return Allow()

    guard = Guard("a", Allow())
    await ask(chain_of(program(HookSpec(name="h", command=("x",)), remembers), guard), bash())
    assert seen == guard.asked == [bash()]


async def test_rule_10_every_decision_is_a_record() -> None:
    chain = chain_of(Guard("a", Allow(reason="fine")), Guard("b", prefixed("nice")), Guard("c", None, Allow()))
    verdict = await ask(chain, bash())
    assert decisions(verdict) == [("a", "allow"), ("b", "modify"), ("a", "allow"), ("b", "allow")]
    first, second, third, _ = verdict.records
    final = digest({"command": "nice ls"})
    assert (first.input_digest, first.result_digest, first.reason) == (digest(bash().input), None, "fine")
    assert (second.input_digest, second.result_digest) == (digest(bash().input), final)
    assert (third.input_digest, third.round) == (final, 2)
    assert all(record.time == 12.0 and 0 <= record.duration < 5 for record in verdict.records)
    assert {record.binding for record in verdict.records} == {"interceptor"}


async def test_rule_10_records_and_calls_are_as_good_as_validated_ones() -> None:
    guard = Guard("a", None, Allow())
    verdict = await ask(chain_of(guard), ran({"x": [1]}))
    record = verdict.records[0]
    assert AuditRecord.parse_json(record.to_json()) == record
    assert record.model_copy(update={"reason": "x"}).reason == "x"
    assert vars(record).keys() == RECORD_FIELDS
    assert guard.asked[0] == ran({"x": [1]})
    assert set(HookCall.model_fields) == CALL_FIELDS


class NoName:
    async def before(self, _: HookCall) -> HookOutcome:
        return Allow()


@pytest.mark.parametrize(
    ("guard", "complaint"),
    [
        (NoName(), "name"),
        (Guard("", Allow()), "name"),
        (Guard("a"), "neither `before` nor `after`"),
        (Guard("a", Allow(), events=("post_tool_use",)), "neither"),
        (Guard("a", Allow(), events=("on_start",)), "on_start"),
        (Guard("a", Allow(), may=()), "may"),
        (Guard("a", Allow(), may="grant"), "may"),
        (Guard("a", Allow(), may=("deny", "fly")), "fly"),
        (Guard("a", Allow(), deadline=0), "deadline"),
        (Guard("a", Allow(), deadline="5"), "deadline"),
        (Guard("a", Allow(), deadline=float("inf")), "deadline"),
        (Guard("a", Allow(), deadline=True), "deadline"),
        (Guard("a", Allow(), tools="Bash"), "tools"),
        (Guard("a", Allow(), tools=()), "tools"),
        (Guard("a", Allow(), tools=(1,)), "tools"),
        (object(), "name"),
    ],
)
def test_rule_11_an_interceptor_that_cannot_take_part_as_it_says_is_an_error(guard: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        from_interceptor(guard, 5.0)


async def test_powers_are_read_once_so_that_nothing_later_widens_them() -> None:
    guard = Guard("a", Allow(), may=("deny",))
    chain = chain_of(guard)
    guard.may = ("grant",)
    assert (await ask(chain, bash())).says == "no_objection"


async def test_a_long_reason_is_cut() -> None:
    verdict = await ask(chain_of(Guard("a", DenyCall(reason="x" * 1_000_000))), bash())
    assert len(verdict.reason) < 10_000


async def test_a_raw_input_may_be_rewritten_as_text() -> None:
    verdict = await ask(chain_of(Guard("a", Modify(input="*** Begin Patch"))), bash(input="*** begin"))
    assert verdict.call.input == "*** Begin Patch"
