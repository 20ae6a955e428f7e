"""`interlock hooks try`: one call through the hooks of a file, with every answer shown.

The chain is a run's own, with the second look after a rewrite, so that a rewriter that would not leave its own result
alone is found here and not in a run. Deny rules and permissions take no part.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
from pydantic import ValidationError

from interlock.engine.chain import Chain, ChainVerdict, chain_of
from interlock.engine.hooks_file import FoundSpec, read_hooks_file
from interlock.engine.places import Place
from interlock.engine.registry import find_adapter
from interlock.errors import InterlockError, UnknownAgent
from interlock.framing.json_objects import NotJson, parse_object
from interlock.hooks import AuditRecord, HookCall
from interlock.model import JsonValue
from interlock.tools import MAIN_AGENT, Subject, ToolCall
from interlock_adapters.cli.options import UsageProblem
from interlock_adapters.cli.output import print_line, safe_line
from interlock_adapters.cli.problems import COMPLETED, FAILED, code_of, explain

__all__ = ["Trial", "try_file"]

LONGEST_CALL = 64 * 1024 * 1024
SHOWN = 400
_EVENTS = ("pre_tool_use", "post_tool_use")


@dataclass(frozen=True, slots=True)
class Trial:
    """What the command line says of a call beside the call itself."""

    agent: str
    cwd: str
    event: str | None
    output: str | None
    is_error: bool


def try_file(file: str, text: str, trial: Trial, *, as_json: bool) -> int:
    """Print what each hook answers and what comes of it; returns the exit code."""
    try:
        call = _call(_read(text), trial)
        found = read_hooks_file(str(Path(file).absolute()), must_exist=True)
        with tempfile.TemporaryDirectory(prefix="interlock-") as scratch:
            verdict = anyio.run(_ask, found, call, scratch)
    except (UsageProblem, InterlockError) as error:
        for line in explain(error):
            print_line(line, 2)
        return code_of(error)
    if as_json:
        print_line(json.dumps(_as_json(call, verdict)))
    else:
        for line in _lines(call, verdict, [one.spec.name for one in found]):
            print_line(safe_line(line))
    return FAILED if any(record.broken for record in verdict.records) else COMPLETED


async def _ask(found: tuple[FoundSpec, ...], call: HookCall, scratch: str) -> ChainVerdict:
    async with chain_of(found, workspace=call.workspace, scratch=scratch).running() as chain:
        return await _asked(chain, call)


async def _asked(chain: Chain, call: HookCall) -> ChainVerdict:
    if call.event == "post_tool_use":
        return await chain.after(call)
    return await chain.before(call, rewrite=_described, forbids=lambda _: None)


# ---- the call --------------------------------------------------------------------------------------------------------


def _read(text: str) -> dict[str, Any]:
    """The call's JSON: itself, from stdin, or from a file."""
    if text.lstrip().startswith("{"):
        data = text.encode(errors="surrogateescape")
    elif text == "-":
        data = sys.stdin.buffer.read(LONGEST_CALL + 1)
    else:
        try:
            with Path(text).open("rb") as file:
                data = file.read(LONGEST_CALL + 1)
        except OSError as error:
            raise UsageProblem(f"CALL {text!r}: {error.strerror}; give a file, - for stdin, or the JSON") from None
    if len(data) > LONGEST_CALL:
        raise UsageProblem(f"CALL {text[:80]!r}: it is longer than {LONGEST_CALL} bytes")
    value = parse_object(data)
    if isinstance(value, NotJson):
        raise UsageProblem(f"CALL {text[:80]!r}: it is not exactly one JSON object: {value.reason}")
    return value


def _call(value: dict[str, Any], trial: Trial) -> HookCall:
    if trial.event not in {None, *_EVENTS}:
        raise UsageProblem(f"--event {trial.event!r}: it is {' or '.join(_EVENTS)}")
    ran = trial.output is not None or trial.is_error or trial.event == "post_tool_use"
    if ran and trial.event == "pre_tool_use":
        raise UsageProblem("--output and --is-error: before a call there is no output; leave out --event")
    after: dict[str, object] = {"event": "post_tool_use", "is_error": trial.is_error} if ran else {}
    if trial.output is not None or (ran and "output" not in value):
        after["output"] = trial.output or ""
    try:
        if "event" in value:
            return HookCall.model_validate({**value, **after})
        return _from_native(value, trial, after)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        raise UsageProblem(f"CALL: field `{'.'.join(map(str, detail['loc']))}`: {detail['msg']}") from None


def _from_native(value: dict[str, Any], trial: Trial, after: dict[str, object]) -> HookCall:
    """The call of an agent, described as in a run."""
    unknown = sorted(set(value) - {"tool_name", "input", "output"})
    if unknown or "tool_name" not in value:
        problem = f"it has unknown fields: {', '.join(unknown)}" if unknown else "it has no `tool_name`"
        raise UsageProblem(f"""CALL: {problem}; write {{"tool_name": "Bash", "input": {{"command": "ls"}}}}""")
    workspace = str(Path(trial.cwd).resolve())
    bare = ToolCall(tool_call_id="try", tool_name=value["tool_name"], input=value.get("input", {}))
    call = find_adapter(trial.agent).describe(bare)
    fields: dict[str, object] = {
        "event": "pre_tool_use",
        "workspace": workspace,
        "agent_id": MAIN_AGENT,
        "tool_call_id": call.tool_call_id,
        "tool_name": call.tool_name,
        "input": call.input,
        "agent": trial.agent,
        "run_id": "try",
        "cwd": call.cwd or workspace,
        "tool_kind": call.tool_kind,
        "subject": _resolved(call, workspace),
        "output": value.get("output"),
    }
    return HookCall.model_validate({**fields, **after})


def _described(call: HookCall, new: JsonValue) -> HookCall:
    """The call with another input, described anew where the agent is known."""
    bare = ToolCall(tool_call_id=call.tool_call_id, tool_name=call.tool_name, input=new)
    try:
        described = find_adapter(call.agent).describe(bare)
    except UnknownAgent:
        return call.model_copy(update={"input": new})
    subject = _resolved(described, call.workspace)
    return call.model_copy(update={"input": new, "subject": subject, "tool_kind": described.tool_kind})


def _resolved(call: ToolCall, workspace: str) -> Subject:
    place = Place.of(workspace)
    paths = tuple(place.real(path, call.cwd) for path in call.subject.paths)
    return call.subject.model_copy(update={"paths": paths})


# ---- what is shown ---------------------------------------------------------------------------------------------------


def _as_json(call: HookCall, verdict: ChainVerdict) -> dict[str, object]:
    after = call.event == "post_tool_use"
    return {
        "event": call.event,
        "denied": verdict.denied,
        "reason": verdict.reason,
        "asked": verdict.asked,
        "granted": verdict.granted,
        "changed": verdict.changed,
        "result": verdict.call.output if after else verdict.call.input,
        "answers": [json.loads(record.to_json()) for record in verdict.records],
    }


def _lines(call: HookCall, verdict: ChainVerdict, names: list[str]) -> Iterator[str]:
    yield f"call     {call.tool_name} {_short(call.input)} (kind {call.tool_kind}, {call.event})"
    width = max((len(name) for name in names), default=0)
    look = 1
    for record in verdict.records:
        if record.round != look:
            look = record.round
            yield "         the second look, at the final input:"
        yield _answer(record, width)
    unasked = [name for name in names if f"hook {name!r}" not in verdict.asked]
    if unasked:
        yield f"         not asked: {', '.join(unasked)}"
    yield f"verdict  {_verdict(call, verdict)}"


def _answer(record: AuditRecord, width: int) -> str:
    decision = f"broken, {record.decision}" if record.broken else record.decision
    shown = f"         {record.participant:<{width}}  {decision:<12} {record.duration * 1000:7.2f} ms"
    return f"{shown}  {_short(record.reason)}" if record.reason else shown


def _verdict(call: HookCall, verdict: ChainVerdict) -> str:
    if verdict.denied:
        return verdict.reason
    if verdict.changed and call.event == "post_tool_use":
        return f"the model sees {_short(verdict.call.output)} (by {verdict.attribution})"
    if verdict.changed:
        return f"it would run as {_short(verdict.call.input)} (by {verdict.attribution})"
    if not verdict.asked:
        return "nobody was asked"
    return "granted" if verdict.granted else "no objection"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(cast("Any", value), ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"
