"""Why a call would run or not: each part of the decision in order, which one decides, and what would change it.

The same judge that judges runs is asked, without a run. Participants of the chain are only named, unless they are to
be asked; then the ruling is theirs too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from interlock.engine.chain import Chain, assemble
from interlock.engine.hosts import plain_host
from interlock.engine.judge import Judge, Look, Ruling
from interlock.engine.participants import Participant
from interlock.engine.places import Place
from interlock.engine.policy_file import hooks_of
from interlock.engine.postures import is_internal
from interlock.engine.registry import find_adapter
from interlock.engine.rules import CHANGES, Rules
from interlock.engine.shell_split import split
from interlock.errors import ConfigurationError
from interlock.hooks import AuditRecord
from interlock.model import Model
from interlock.permission import Otherwise, Posture
from interlock.policy import Effective, Sourced
from interlock.request import Request
from interlock.tools import ToolCall, ToolKind

__all__ = ["Explanation", "Step", "explain"]

DEFAULT = "the default"
Part = Literal["deny rules", "chain", "allow rules", "posture", "otherwise"]
_DECIDING: dict[str, Part] = {
    "rule": "allow rules",
    "internal": "posture",
    "posture": "posture",
    "hook": "chain",
    "grant": "otherwise",
    "policy": "otherwise",
}


class Step(Model):
    """One part of the decision."""

    part: Part
    says: str
    decides: bool = False
    rule: str | None = None
    """The rule that matches; several joined by ` + ` where a command line needs them together."""
    source: str | None = None
    """Where the rule or the value stands."""


class Explanation(Model):
    """What would become of one call, and why."""

    call: ToolCall
    result: Literal["run", "deny", "ask", "agent"]
    by: str
    """rule, hook, internal, posture, grant or policy."""
    why: str
    steps: tuple[Step, ...]
    changes: tuple[str, ...] = ()
    """What would change the result."""
    notes: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    records: tuple[AuditRecord, ...] = ()
    """What participants answered, where they were asked."""


@dataclass(frozen=True, slots=True)
class _Case:
    request: Request
    """As governed."""
    effective: Effective
    call: ToolCall
    look: Look
    place: Place
    ruling: Ruling | None = None


async def explain(
    request: Request,
    effective: Effective,
    call: ToolCall,
    *,
    hooks: str | None = None,
    ask: bool = False,
) -> Explanation:
    """Explain what would become of a call; `request` is as governed. With `ask` the participants are really asked.

    Raises `UnknownAgent` and `ConfigurationError`. The agent counts as unconfined, its session as fresh.
    """
    chain, judge, place = _bench(request, effective, hooks)
    look = judge.look(call)
    ruling: Ruling | None = None
    if ask and look.deny_rule is None:
        async with chain.running():
            ruling = await judge.before(call)
    return _explained(_Case(request, effective, call, look, place, ruling))


def _bench(request: Request, effective: Effective, hooks: str | None) -> tuple[Chain, Judge, Place]:
    workspace = str(Path(request.cwd).expanduser().resolve())
    chain = assemble(
        interceptors=(),
        hooks=hooks,
        request=request,
        workspace=workspace,
        first=hooks_of(effective, administrators=True),
        more=hooks_of(effective, administrators=False),
        grants_kept_by=effective.grants_kept_by,
    )
    judge = Judge(
        run_id="explain",
        agent=request.agent,
        permission=request.permission,
        workspace=workspace,
        add_dirs=request.add_dirs,
        chain=chain,
        describe=find_adapter(request.agent).describe,
        confined=False,
    )
    return chain, judge, Place.of(workspace, request.add_dirs)


def _explained(case: _Case) -> Explanation:
    ruling, finding = case.ruling, case.look.finding
    result, by = (ruling.result, ruling.by) if ruling is not None else (finding.result, finding.by)
    decides = "deny rules" if by == "rule" and result == "deny" else _DECIDING[by]
    steps = tuple(step.model_copy(update={"decides": step.part == decides}) for step in _steps(case))
    return Explanation(
        call=case.call if ruling is None else ruling.call,
        result=result,
        by=by,
        why=ruling.reason if ruling is not None else next(step.says for step in steps if step.decides),
        steps=steps,
        changes=tuple(_changes(case, result, by)),
        notes=tuple(_notes(case)),
        policies=tuple(layer.source for layer in case.effective.layers),
        records=() if ruling is None else ruling.records,
    )


# ---- The parts of the decision --------------------------------------------------------------------------------------


def _steps(case: _Case) -> Iterator[Step]:
    look, permission = case.look, case.request.permission
    yield _rule_step("deny rules", look.deny_rule, case.effective.deny, "denied by")
    yield Step(part="chain", says=_chain_words(case))
    if look.covered == "internal":
        yield Step(part="allow rules", says="not needed: it touches nothing outside the agent")
        yield Step(part="posture", says="runs under every posture: it touches nothing outside the agent")
    else:
        yield _rule_step("allow rules", look.allow_rule, case.effective.allow, "allowed by")
        yield _posture_step(case)
    source = case.effective.origins.get("otherwise", DEFAULT)
    yield Step(part="otherwise", says=f"{permission.otherwise}: {_rest(case)}", source=source)


def _rule_step(part: Part, rule: str | None, rules: Sequence[Sourced], verb: str) -> Step:
    if rule is None:
        return Step(part=part, says=f"none of {len(rules)} matches" if rules else "there are none")
    source = _source_of(rule, rules)
    return Step(part=part, says=f"{verb} {rule!r}", rule=rule, source=source)


def _source_of(rule: str, rules: Sequence[Sourced]) -> str:
    """Where a rule stands, or the rules that were joined."""
    exact = [one.source for one in rules if one.value == rule]
    parts = [one.source for one in rules if one.value in rule.split(" + ")]
    return exact[0] if exact else "; ".join(dict.fromkeys(parts)) or "this run"


def _chain_words(case: _Case) -> str:
    if case.look.deny_rule is not None:
        return "not asked: a deny rule comes first"
    concerned = case.look.concerned
    if case.ruling is not None:
        answers = [record for record in case.ruling.records if record.binding in {"interceptor", "hook"}]
        return "; ".join(map(_answer, answers)) or "nobody takes part in this call"
    if not concerned:
        return "nobody takes part in this call"
    return f"would be asked, and may say no: {', '.join(map(_powers, concerned))}"


def _powers(one: Participant) -> str:
    return f"{one.title} ({', '.join(sorted(one.may))})"


def _answer(record: AuditRecord) -> str:
    broken = "broken, so " if record.broken else ""
    reason = f": {record.reason}" if record.reason else ""
    return f"{record.binding} {record.participant!r} said {broken}{record.decision}{reason}"


def _posture_step(case: _Case) -> Step:
    posture = case.request.permission.posture
    source = case.effective.origins.get("posture", DEFAULT)
    covered = posture in case.look.postures
    says = f"{posture} {'covers' if covered else 'does not cover'} it"
    if not covered:
        says += f"; the narrowest that does is {case.look.postures[0]}"
    return Step(part="posture", says=says, source=source)


def _rest(case: _Case) -> str:
    granters = [one.title for one in case.look.concerned if "grant" in one.may]
    match case.request.permission.otherwise:
        case Otherwise.DENY:
            return "what nothing covers is denied"
        case Otherwise.ASK:
            return "a person is asked about what nothing covers"
        case Otherwise.CHAIN if granters:
            return f"granted if {' or '.join(granters)} does not object, nor anybody else"
        case Otherwise.CHAIN:
            return "nobody who may grant would be asked, so it is denied"
        case Otherwise.AGENT:
            return "the agent's own rules decide about what nothing covers"


# ---- What would change it -------------------------------------------------------------------------------------------


def _changes(case: _Case, result: str, by: str) -> Iterator[str]:
    if by == "hook":
        yield "only the participants of the chain can change it: no rule outweighs them"
    elif by == "rule" and result == "deny":
        rule = case.look.deny_rule
        where = _source_of(rule, case.effective.deny) if rule is not None else "this run"
        yield f"leave the deny rule {rule!r} out of {where}; nothing else outweighs it"
    elif result == "run":
        stop = case.look.suggestion or str(case.call.tool_kind)
        if _matches([stop], case):
            yield f"the deny rule {stop!r} would deny it"
    else:
        yield from _openings(case)


def _matches(rules: Sequence[str], case: _Case) -> bool:
    try:
        return Rules(rules, "deny", case.place).match(case.call) is not None
    except ConfigurationError:
        return False


def _openings(case: _Case) -> Iterator[str]:
    """The rule, and the posture, that would let it run; and the bound that forbids it."""
    rule = case.look.suggestion
    if rule is None:
        yield "no single narrow rule would let it run"
    else:
        yield _unless(case.effective.objections(allow=(rule,)), f"the allow rule {rule!r} would let it run")
    wider = next(iter(case.look.postures), Posture.FULL)
    yield _unless(case.effective.objections(posture=wider), f"the posture {wider} would let it run")


def _unless(objections: Sequence[str], words: str) -> str:
    return f"{words}, but {'; '.join(objections)}" if objections else words


# ---- What is easily overlooked --------------------------------------------------------------------------------------


def _notes(case: _Case) -> Iterator[str]:
    call = case.call
    for path in call.subject.paths:
        yield _where(path, case)
    if call.tool_kind is ToolKind.SHELL and call.subject.command:
        yield from _commands(call.subject.command)
    yield from _cautions(call, case)
    if call.tool_kind is ToolKind.UNKNOWN:
        yield f"{call.tool_name!r} is no tool that the agent's table knows; rules for it are of the kind `unknown`"
    elif not is_internal(call.tool_kind) and _is_blank(call):
        yield "the input does not say what it is about: deny rules of its kind match, allow rules with a pattern do not"
    if call.tool_kind is ToolKind.SHELL and case.look.covered == "posture":
        yield "a reader; it is trusted until another unsandboxed command has run in the session"


def _commands(command: str) -> Iterator[str]:
    """How a command line was read, where it is more than one command of plain words."""
    found = split(command)
    if found.hidden:
        yield "it may run what cannot be seen in it: no allow rule matches it, and every deny rule over commands does"
    elif not found.complete:
        yield "it cannot be read completely, so no allow rule with a pattern matches it"
    elif len(found.parts) > 1:
        shown = ", ".join(repr(" ".join(word.literal or "..." for word in part.words)) for part in found.parts)
        yield f"it runs {shown}; each must be allowed, and one that is denied is enough"


def _cautions(call: ToolCall, case: _Case) -> Iterator[str]:
    """Why the posture, or a rule, does not cover what it seems to."""
    if call.tool_kind in CHANGES and case.look.postures == (Posture.FULL,) and _all_inside(case):
        yield "it would change what configures or runs programs (.git, .claude and the like), which only `full` covers"
    for url in call.subject.urls:
        if plain_host(url) is None:
            yield f"{url!r} is not read alike by all programs, so no allow rule with a host matches it"


def _all_inside(case: _Case) -> bool:
    found = [case.place.spellings(path, case.call.cwd) for path in case.call.subject.paths]
    return bool(found) and all(one is not None and case.place.is_inside(one) for one in found)


def _is_blank(call: ToolCall) -> bool:
    about = call.subject
    named = {ToolKind.SHELL, ToolKind.READ, ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH, ToolKind.FETCH, ToolKind.MCP}
    return call.tool_kind in named and not (about.command or about.paths or about.urls or about.mcp)


def _where(path: str, case: _Case) -> str:
    spellings = case.place.spellings(path, case.call.cwd)
    if spellings is None:
        return f"{path!r} cannot be read as a path"
    real = case.place.real(path, case.call.cwd)
    side = "inside" if case.place.is_inside(spellings) else "outside"
    return f"{path!r} is {real!r}, {side} the workspace"
