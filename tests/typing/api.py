"""The public API as type checkers see it: checked by mypy and pyright, never run.

What they must refuse is listed in tests/test_typing.py.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import assert_never, assert_type

from interlock import (
    Allow,
    Answer,
    Answerer,
    Approval,
    ApprovalRequested,
    ApprovalResolved,
    Approve,
    Approver,
    Backstop,
    Batch,
    BatchReport,
    BatchResult,
    Budget,
    Capabilities,
    Client,
    Compacted,
    Deny,
    DenyCall,
    Event,
    FilesChanged,
    Fork,
    FrozenMap,
    HookCall,
    HookOutcome,
    HookSpec,
    Interceptor,
    JsonValue,
    Limits,
    Modify,
    NewSession,
    Notice,
    Otherwise,
    Outcome,
    Permission,
    Plan,
    PlanUpdated,
    Posture,
    Question,
    QuestionAsked,
    RateLimited,
    Raw,
    Reason,
    Replace,
    Request,
    Resume,
    Retrying,
    Run,
    RunFailed,
    RunFinished,
    RunStarted,
    Status,
    SubagentFinished,
    SubagentStarted,
    Task,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolDecided,
    ToolFinished,
    ToolKind,
    ToolOutput,
    ToolRequested,
    TurnFinished,
    Unguarded,
    Unmet,
    Unsupported,
    UsageUpdated,
    batch,
    decision_adapter,
    event_adapter,
    outcome_adapter,
    plan,
    run,
    run_sync,
    stream,
)

request = Request(
    agent="claude",
    prompt="p",
    permission=Permission(posture=Posture.EDIT, otherwise=Otherwise.ASK, allow=("shell(git status)",)),
    limits=Limits(total=60, max_turns=3),
    session=Resume(id="s"),
)


# ---- Requests -------------------------------------------------------------------------------------------------------

assert_type(request.permission, Permission)
assert_type(request.permission.posture, Posture)
assert_type(request.permission.backstop, Backstop)
assert_type(request.permission.allow, tuple[str, ...])
assert_type(request.limits.total, float | None)
assert_type(request.session, NewSession | Resume | Fork)
assert_type(request.env, Mapping[str, str])
assert_type(request.env["A"], str)
assert_type(request.digest(), str)
assert_type(Request.parse_json("{}"), Request)


# ---- Runs -----------------------------------------------------------------------------------------------------------

assert_type(run_sync(request), Outcome)
assert_type(plan(request), Plan)
assert_type(plan(request).redacted_argv(), tuple[str, ...])
assert_type(plan(request).capabilities, Capabilities)
assert_type(stream(request), AbstractAsyncContextManager[Run])


async def drive(client: Client) -> None:
    assert_type(await run(request), Outcome)
    assert_type(await client.run(request, check=False), Outcome)
    assert_type(client.plan(request), Plan)
    async with Client() as entered:
        assert_type(entered, Client)
    async with client.stream(request) as running:
        assert_type(running, Run)
        assert_type(running.id, str)
        assert_type(running.plan, Plan)
        assert_type(aiter(running), AsyncIterator[Event])
        assert_type(running.open_approvals, tuple[Approval, ...])
        async for event in running:
            answer(running, event)
        assert_type(await running.outcome(check=True), Outcome)
        await running.send("go on")
        await running.interrupt()
        await running.cancel()


def answer(running: Run, event: Event) -> None:
    match event:
        case ApprovalRequested(approval=approval):
            assert_type(approval, Approval)
            assert_type(approval.display(), str)
            running.respond(approval.id, Approve())
            running.respond(approval.id, Approve(updated_input=FrozenMap({"command": "ls"})))
            running.respond(approval.id, Deny(reason="not today", interrupt=True))
        case QuestionAsked(question=question):
            assert_type(question, Question)
            running.answer(question.id, Answer(declined=True))
        case _:
            pass


def words(outcome: Outcome) -> None:
    assert_type(outcome.status, Status)
    assert_type(outcome.reason, Reason | None)
    assert_type(outcome.text, str | None)
    assert_type(outcome.structured, JsonValue)
    assert_type(outcome.usage.input_tokens, int | None)
    assert_type(outcome.ok, bool)


# ---- Events: the union is closed, so a match over it can be complete ------------------------------------------------


def each(event: Event) -> str:
    match event:
        case RunStarted() | RunFinished():
            return event.run_id
        case TextDelta(text=text) | Text(text=text) | ThinkingDelta(text=text) | Thinking(text=text):
            return assert_type(text, str)
        case ToolRequested() | ToolFinished():
            return assert_type(event.tool_kind, ToolKind)
        case ToolDecided() | ToolOutput():
            return event.tool_call_id
        case ApprovalRequested() | ApprovalResolved() | QuestionAsked():
            return event.type
        case PlanUpdated() | FilesChanged() | UsageUpdated() | RateLimited() | Retrying() | Compacted():
            return event.type
        case SubagentStarted() | SubagentFinished():
            return event.subagent_id
        case Notice() | Unguarded() | TurnFinished():
            return event.message
        case Raw():
            return event.channel
        case _:
            assert_never(event)


# ---- The chain ------------------------------------------------------------------------------------------------------


class Before:
    """Only asked before."""

    name = "before"

    async def before(self, call: HookCall) -> Allow | DenyCall | Modify:
        assert_type(call.input, JsonValue)
        return Allow()


class After:
    """Only asked after, with powers and a deadline of its own."""

    name = "after"
    may = ("replace",)
    deadline = 2.0
    tools = ("shell",)

    async def after(self, call: HookCall) -> HookOutcome:
        return Replace(output=None) if call.is_error else Allow()


chain: Sequence[Interceptor] = (Before(), After())
Client(interceptors=[Before(), After()], hooks=[HookSpec(name="guard", command=("/opt/guard",))])
Client(hooks="hooks.json", audit="audit.jsonl", on_unguarded="report")


# ---- Who answers ----------------------------------------------------------------------------------------------------


async def approve(approval: Approval, /) -> Approve | Deny:
    return Deny() if approval.leaves_sandbox else Approve(remember="shell(ls)")


async def reply(question: Question) -> Answer:
    return Answer(answers=FrozenMap({question.items[0].id: ("yes",)}))


approver: Approver = approve
answerer: Answerer = reply
Client(approver=approve, answerer=reply)


# ---- Batches --------------------------------------------------------------------------------------------------------


async def many(client: Client) -> None:
    tasks: list[Task | Request] = [Task(id="one", request=request), request]
    async with batch(tasks, "out", client=client, agents={"claude": 2}, budget=Budget(usd=1, run_usd=0.1)) as runs:
        assert_type(runs, Batch)
        async for result in runs:
            assert_type(result, BatchResult)
            assert_type(result.outcome, Outcome)
        assert_type(await runs.report(), BatchReport)


# ---- JSON and errors ------------------------------------------------------------------------------------------------

assert_type(decision_adapter().validate_json("{}"), Approve | Deny)
assert_type(outcome_adapter().validate_json("{}"), Allow | DenyCall | Modify | Replace)
assert_type(event_adapter().validate_json("{}"), Event)
each(event_adapter().validate_json("{}"))
environment: Mapping[str, str] = request.env

try:
    run_sync(request)
except Unsupported as unsupported:
    assert_type(unsupported.unmet, tuple[Unmet, ...])
except RunFailed as failed:
    assert_type(failed.outcome, Outcome)
