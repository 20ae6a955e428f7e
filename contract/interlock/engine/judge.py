"""What a run asks about each call: the deny rules, the chain, what was allowed, and what was said for the rest.

Nothing but cancellation ever leaves a judge: what cannot be judged is denied, and the denial says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from interlock.engine.chain import Chain, ChainVerdict
from interlock.engine.gate import ChainSays, Coverage, Facts, Finding, decide
from interlock.engine.participants import Participant
from interlock.engine.places import Place
from interlock.engine.plain_json import copied
from interlock.engine.postures import covers, is_internal, reader_operands, touched
from interlock.engine.rules import Rules
from interlock.engine.suggestions import suggest
from interlock.errors import ConfigurationError
from interlock.hooks import AuditRecord, HookCall
from interlock.model import JsonValue, digest, same_json
from interlock.permission import Permission, Posture
from interlock.tools import Subject, ToolCall, ToolKind

__all__ = ["AfterRuling", "AuditState", "Judge", "Look", "Ruling"]


class AuditState(Protocol):
    """What a judge needs to know of the audit: nothing runs that could not be written down."""

    @property
    def failure(self) -> str | None:
        """Why the audit can no longer be written."""
        ...


READING = frozenset({ToolKind.READ, ToolKind.SEARCH, ToolKind.FETCH, ToolKind.WEB_SEARCH, ToolKind.AGENT})
"""What allow rules cover while a run plans."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What becomes of a call before it runs. `call` is what would run; `allow_rule` would cover it another time."""

    result: Literal["run", "deny", "ask", "agent"]
    by: str
    """rule, hook, internal, posture, grant, policy or user."""
    reason: str
    call: ToolCall
    changed: bool = False
    records: tuple[AuditRecord, ...] = ()
    allow_rule: str | None = None
    interrupt: bool = False


@dataclass(frozen=True, slots=True)
class AfterRuling:
    """What the model is shown of a call that ran; of a denial, `output` is the reason."""

    result: Literal["keep", "replace", "deny"]
    output: JsonValue
    is_error: bool
    by: str = ""
    reason: str = ""
    records: tuple[AuditRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """What each part of the decision says of a call, nobody being asked."""

    deny_rule: str | None
    concerned: tuple[Participant, ...]
    """Who would be asked."""
    covered: Coverage
    allow_rule: str | None
    finding: Finding
    """If none of those who would be asked objects."""
    suggestion: str | None
    """The narrowest rule about this call."""
    postures: tuple[Posture, ...]
    """Those that cover it."""


@dataclass(slots=True)
class _Case:
    """One call before a judge: what rules matched, and what was written down."""

    call: ToolCall
    round: int = 1
    changed: bool = False
    attribution: str = ""
    records: list[AuditRecord] = field(default_factory=list[AuditRecord])


class Judge:
    """Judges the calls of one run. Raises `ConfigurationError` for a rule that cannot be understood."""

    def __init__(
        self,
        *,
        run_id: str,
        agent: str,
        permission: Permission,
        workspace: str,
        add_dirs: Sequence[str],
        chain: Chain,
        describe: Callable[[ToolCall], ToolCall],
        confined: bool,
        clock: Callable[[], float] = time.time,
        readers_void: bool = False,
        audit: AuditState | None = None,
        home: str | None = None,
        may_allow: Callable[[str], bool] | None = None,
        planning: bool = False,
    ) -> None:
        self._run_id = run_id
        self._agent = agent
        self._permission = permission
        self._place = Place.of(workspace, add_dirs, home)
        self._allow = Rules(permission.allow, "allow", self._place, permission.posture)
        self._deny = Rules(permission.deny, "deny", self._place)
        self._chain = chain
        self._describe = describe
        self._confined = confined
        self._clock = clock
        self._readers_void = readers_void
        """True from the start for a session that another run began: it may have run commands."""
        self._audit = audit
        self._may_allow = may_allow
        """Whether a policy's bounds leave room for an allow rule; None: for any."""
        self._planning = planning
        """Until the plan is accepted nothing is covered but reading."""

    async def before(self, call: ToolCall, *, leaves_sandbox: bool = False) -> Ruling:
        """May this call run? `leaves_sandbox`: it asks to run outside the sandbox that confines the agent."""
        case = _Case(call)
        try:
            return await self._before(case, confined=self._confined and not leaves_sandbox)
        except Exception as error:  # noqa: BLE001  # a bug of ours denies
            return self._unjudged(case, error)

    def look(self, call: ToolCall) -> Look:
        """What would become of a call, with nobody asked and nothing written down."""
        concerned = self._chain.concerned(self._hook_call(call))
        grants = any("grant" in one.may for one in concerned)
        says: ChainSays = "granted" if grants else "no_objection" if concerned else "nobody_asked"
        deny_rule = self._forbidden(call)
        covered, rule = self._coverage(call, confined=self._confined)
        facts = Facts(
            deny_rule=deny_rule is not None, chain=says, covered=covered, otherwise=self._permission.otherwise
        )
        how = {"confined": self._confined, "readers_void": self._readers_void}
        postures = tuple(one for one in Posture if covers(one, call, self._place, **how))
        return Look(deny_rule, concerned, covered, rule, decide(facts), suggest(call, self._place), postures)

    async def approved(self, call: ToolCall) -> Ruling:
        """May this input run, which a person wrote and approved? It passes deny rules and chain, once."""
        case = _Case(call, round=2)
        try:
            case.call = self._described(call, call.input)
            verdict = await self._objections(case)
        except Exception as error:  # noqa: BLE001  # a bug of ours denies
            return self._unjudged(case, error)
        if isinstance(verdict, Ruling):
            return verdict
        return self._ruled(case, Finding("run", "policy"), "approved", by="user")

    async def after(self, call: ToolCall, output: JsonValue, is_error: bool) -> AfterRuling:
        """What may the model see of this call's output?"""
        try:
            asked = self._hook_call(call, output=copied(output), is_error=is_error)
            verdict = await self._chain.after(asked)
        except Exception as error:  # noqa: BLE001  # a bug of ours withholds
            reason = f"the output could not be judged ({type(error).__name__})"
            return AfterRuling("deny", reason, is_error=True, by="policy", reason=reason)
        if verdict.denied:
            return AfterRuling("deny", verdict.reason, True, "hook", verdict.reason, verdict.records)
        shown = is_error if verdict.call.is_error is None else verdict.call.is_error
        result: Literal["keep", "replace"] = "replace" if verdict.changed else "keep"
        by = "hook" if verdict.changed else ""
        return AfterRuling(result, verdict.call.output, shown, by, verdict.attribution, verdict.records)

    def remember(self, rule: str) -> bool:
        """Allow what the rule matches for the rest of this run; False if it is not understood or out of bounds."""
        try:
            if self._may_allow is not None and not self._may_allow(rule):
                return False
            self._allow.add(rule)
        except (ConfigurationError, ValueError):
            return False
        return True

    def ran(self, call: ToolCall) -> None:
        """A call was let run; an unsandboxed command that is no reader makes readers void, a plan ends the planning."""
        if call.tool_kind is ToolKind.PLAN:
            self._planning = False
        if self._confined or call.tool_kind not in {ToolKind.SHELL, ToolKind.SHELL_INPUT}:
            return
        if call.tool_kind is ToolKind.SHELL_INPUT or reader_operands(call.subject.command) is None:
            self._readers_void = True

    # ---- before a call ----------------------------------------------------------------------------------------------

    async def _before(self, case: _Case, *, confined: bool) -> Ruling:
        verdict = await self._objections(case)
        if isinstance(verdict, Ruling):
            return verdict
        covered, rule = self._coverage(case.call, confined=confined)
        facts = Facts(deny_rule=False, chain=verdict.says, covered=covered, otherwise=self._permission.otherwise)
        finding = decide(facts)
        if finding.by == "rule" and rule is not None:
            self._record(case, "rule", rule, "allow", f"allowed by rule {rule!r}")
        return self._ruled(case, finding, self._words(case, finding, rule, verdict))

    async def _objections(self, case: _Case) -> ChainVerdict | Ruling:
        """Deny rules, then the chain; a ruling where one of them, or the audit, says no."""
        if self._audit is not None and self._audit.failure is not None:
            reason = f"the audit cannot be written ({self._audit.failure})"
            return self._ruled(case, Finding("deny", "policy"), reason)
        rule = self._forbidden(case.call)
        if rule is not None:
            return self._denied_by_rule(case, rule)
        case.call = case.call.model_copy(update={"input": copied(case.call.input)})
        original = case.call.input
        verdict = await self._chain.before(
            self._hook_call(case.call, look=case.round),
            rewrite=lambda asked, new: self._hook_call(self._described(case.call, new), look=asked.round),
            forbids=lambda asked: self._forbidden(self._described(case.call, asked.input)),
        )
        case.records.extend(verdict.records)
        case.attribution = verdict.attribution
        if verdict.changed:
            case.call = self._described(case.call, verdict.call.input)
            case.changed = not same_json(case.call.input, original)
        if verdict.rule is not None:
            return self._denied_by_rule(case, verdict.rule)
        if verdict.denied:
            return self._ruled(case, Finding("deny", "hook"), verdict.reason, recorded=True)
        return verdict

    def _denied_by_rule(self, case: _Case, rule: str) -> Ruling:
        reason = f"denied by rule {rule!r}{_who(case)}"
        self._record(case, "rule", rule, "deny", reason)
        return self._ruled(case, Finding("deny", "rule"), reason)

    def _forbidden(self, call: ToolCall) -> str | None:
        """The deny rule that the call runs into, or what a command plainly reads or writes."""
        rule = self._deny.match(call)
        if rule is not None or call.tool_kind is not ToolKind.SHELL:
            return rule
        for kind, paths in zip((ToolKind.READ, ToolKind.WRITE), touched(call.subject.command), strict=True):
            if rule is None and paths:
                asked = call.model_copy(update={"tool_kind": kind, "subject": Subject(paths=paths)})
                rule = self._deny.match(asked)
        return rule

    def _coverage(self, call: ToolCall, *, confined: bool) -> tuple[Coverage, str | None]:
        if self._planning and call.tool_kind is ToolKind.PLAN:
            return "nothing", None
        if is_internal(call.tool_kind):
            return "internal", None
        reads = not self._planning or call.tool_kind in READING
        rule = self._allow.match(call) if reads else None
        if rule is not None:
            return "rule", rule
        posture = self._permission.posture
        if self._planning and posture is not Posture.NONE:
            posture = Posture.READ
        if covers(posture, call, self._place, confined=confined, readers_void=self._readers_void):
            return "posture", None
        return "nothing", None

    def _words(self, case: _Case, finding: Finding, rule: str | None, verdict: ChainVerdict) -> str:
        if finding.result == "run":
            said = {"rule": f"rule {rule!r}", "posture": f"posture {self._permission.posture}", "grant": "the chain"}
            return f"allowed by {said.get(finding.by, 'its kind')}{_who(case)}"
        if self._planning and case.call.tool_kind is ToolKind.PLAN and finding.result == "deny":
            return "this run only plans: end your turn with the plan as your answer"
        missing = f"posture {self._permission.posture} does not cover it and no allow rule matches"
        if self._planning:
            missing = "until the plan is accepted only reading is covered"
        if finding.result == "deny" and verdict.asked and self._permission.otherwise == "chain":
            missing += "; nobody in the chain granted it"
        return f"{missing} (otherwise: {self._permission.otherwise}){_who(case)}"

    def _ruled(
        self, case: _Case, finding: Finding, reason: str, *, by: str | None = None, recorded: bool = False
    ) -> Ruling:
        if finding.by != "rule" and not recorded:
            name, binding = ("user", "approval") if by == "user" else ("policy", "policy")
            decision = "allow" if finding.result == "run" else finding.result
            self._record(case, "approval" if binding == "approval" else "policy", name, decision, reason)
        uncovered = finding.by == "policy" and finding.result in {"deny", "ask", "agent"}
        return Ruling(
            result=finding.result,
            by=by or finding.by,
            reason=reason,
            call=case.call,
            changed=case.changed,
            records=tuple(case.records),
            allow_rule=suggest(case.call, self._place) if uncovered else None,
        )

    def _unjudged(self, case: _Case, error: Exception) -> Ruling:
        reason = f"the call could not be judged ({type(error).__name__})"
        return Ruling(result="deny", by="policy", reason=reason, call=case.call, records=tuple(case.records))

    # ---- calls and records ------------------------------------------------------------------------------------------

    def _described(self, call: ToolCall, new: JsonValue) -> ToolCall:
        """The call with another input, its kind and subject read anew; it stays the same call of the same tool."""
        described = self._describe(call.model_copy(update={"input": copied(new)}))
        kept = {"tool_call_id": call.tool_call_id, "tool_name": call.tool_name, "agent_id": call.agent_id}
        return described.model_copy(update={**kept, "input": copied(new)})

    def _hook_call(
        self, call: ToolCall, *, look: int = 1, output: JsonValue = None, is_error: bool | None = None
    ) -> HookCall:
        return HookCall(
            event="pre_tool_use" if is_error is None else "post_tool_use",
            workspace=self._place.workspace,
            agent_id=call.agent_id,
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
            input=call.input,
            agent=self._agent,
            run_id=self._run_id,
            round=look,
            cwd=call.cwd or self._place.workspace,
            hidden=call.hidden,
            tool_kind=call.tool_kind,
            subject=self._resolved(call),
            output=output,
            is_error=is_error,
        )

    def _resolved(self, call: ToolCall) -> Subject:
        if not call.subject.paths:
            return call.subject
        paths = tuple(self._place.real(path, call.cwd) for path in call.subject.paths)
        return call.subject.model_copy(update={"paths": paths})

    def _record(
        self, case: _Case, binding: Literal["rule", "policy", "approval"], name: str, decision: str, reason: str
    ) -> None:
        call = case.call
        record = AuditRecord(
            run_id=self._run_id,
            agent=self._agent,
            agent_id=call.agent_id,
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
            event="pre_tool_use",
            round=case.round,
            participant=name,
            binding=binding,
            decision=decision,
            reason=reason,
            input_digest=digest(call.input),
            time=self._clock(),
        )
        case.records.append(record)


def _who(case: _Case) -> str:
    """Who rewrote the call, so that it is not the model's doing alone."""
    return f" (rewritten by {case.attribution})" if case.attribution else ""
