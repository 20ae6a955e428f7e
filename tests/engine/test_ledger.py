"""The ledger holds what the agent reports against what was decided."""

import pytest

from interlock.actions import Key
from interlock.engine.ledger import Ledger
from interlock.events import ToolFinished, ToolRequested
from interlock.model import JsonValue
from interlock.tools import MAIN_AGENT, ToolCall, ToolKind

KEY = Key(MAIN_AGENT, "t1")


def call(command: JsonValue = "touch x", name: str = "Bash") -> ToolCall:
    return ToolCall(tool_call_id="t1", tool_name=name, input={"command": command}, tool_kind=ToolKind.SHELL)


def finished(status: str, name: str = "Bash") -> ToolFinished:
    return ToolFinished.model_validate(
        {"tool_call_id": "t1", "tool_name": name, "tool_kind": "shell", "status": status},
    )


def decided(decision: str) -> Ledger:
    ledger = Ledger(complete=True)
    assert ledger.consulted(KEY, call()) is None
    ledger.decided(KEY, call(), decision, by="posture", reason="because")
    return ledger


def test_a_call_that_ran_as_decided_is_no_finding() -> None:
    ledger = decided("run")
    assert ledger.ran(KEY, call()) is None
    assert ledger.finished(finished("ok")) is None
    assert ledger.cut_short() == ()


def test_a_call_that_ran_without_a_decision_is_a_finding() -> None:
    finding = Ledger(complete=True).finished(finished("ok"))
    assert finding is not None
    assert finding.kind == "no_decision"


def test_a_call_without_a_decision_is_no_finding_where_the_transport_does_not_show_every_call() -> None:
    assert Ledger(complete=False).finished(finished("ok")) is None


def test_a_call_that_failed_before_anybody_was_asked_is_no_finding() -> None:
    assert Ledger(complete=True).finished(finished("error")) is None


def test_success_after_a_denial_is_a_finding() -> None:
    finding = decided("deny").finished(finished("ok"))
    assert finding is not None
    assert finding.kind == "ran_after_deny"


def test_an_error_after_a_denial_is_none() -> None:
    assert decided("deny").finished(finished("error")) is None


@pytest.mark.parametrize("ran", ["touch y", "touch x ", 1, None])
def test_running_with_another_input_is_a_finding(ran: JsonValue) -> None:
    finding = decided("run").ran(KEY, call(ran))
    assert finding is not None
    assert finding.kind == "other_input"


def test_running_after_a_denial_is_a_finding() -> None:
    finding = decided("deny").ran(KEY, call())
    assert finding is not None
    assert finding.kind == "ran_after_deny"


def test_being_asked_twice_about_a_decided_call_is_a_finding() -> None:
    finding = decided("run").consulted(KEY, call())
    assert finding is not None
    assert finding.kind == "second_consult"


def test_only_the_very_call_and_input_are_confirmed() -> None:
    ledger = decided("run")
    assert ledger.confirms(KEY, call()) == "run"
    assert ledger.confirms(KEY, call("touch y")) is None
    assert ledger.confirms(KEY, call(name="Write")) is None
    assert ledger.confirms(Key("a1", "t1"), call()) is None
    ledger.finished(finished("ok"))
    assert ledger.confirms(KEY, call()) is None


def test_numbers_and_booleans_are_not_confused() -> None:
    ledger = Ledger(complete=True)
    ledger.decided(KEY, call(1), "run", by="posture")
    assert ledger.confirms(KEY, call(1)) == "run"
    for other in (1.5, True, "1"):
        assert ledger.confirms(KEY, call(other)) is None


def test_denials_keep_the_order_in_which_the_calls_were_asked_for() -> None:
    ledger = Ledger(complete=True)
    for number in ("t1", "t2", "t3"):
        ledger.requested(ToolRequested(tool_call_id=number, tool_name="Bash", tool_kind=ToolKind.SHELL, input={}))
    for number in ("t3", "t1"):
        other = ToolCall(tool_call_id=number, tool_name="Bash", input={})
        ledger.decided(Key(MAIN_AGENT, number), other, "deny", by="rule", reason="no", allow_rule="shell(x)")
    assert [denial.tool_call_id for denial in ledger.denials()] == ["t1", "t3"]
    assert ledger.denials()[0].allow_rule == "shell(x)"


def test_a_call_that_the_agent_itself_denied_is_among_the_denials() -> None:
    ledger = decided("run")
    event = finished("denied").model_copy(update={"by": "agent", "output": "not allowed here"})
    assert ledger.finished(event) is None
    assert [(denial.by, denial.reason) for denial in ledger.denials()] == [("agent", "not allowed here")]
