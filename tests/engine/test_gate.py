"""The table of the gate, row by row, and what must hold whatever the facts are."""

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.gate import ChainSays, Coverage, Facts, Finding, decide
from interlock.permission import Otherwise

CHAIN = get_args(ChainSays)
COVERED = get_args(Coverage)
facts = st.builds(
    Facts,
    deny_rule=st.booleans(),
    chain=st.sampled_from(CHAIN),
    covered=st.sampled_from(COVERED),
    otherwise=st.sampled_from(Otherwise),
)


@pytest.mark.parametrize(("chain", "covered", "otherwise"), list(product(CHAIN, COVERED, Otherwise)))
def test_a_deny_rule_denies_whatever_else_is_said(chain: ChainSays, covered: Coverage, otherwise: Otherwise) -> None:
    assert decide(Facts(True, chain, covered, otherwise)) == Finding("deny", "rule")


@pytest.mark.parametrize(("covered", "otherwise"), list(product(COVERED, Otherwise)))
def test_a_denial_of_the_chain_denies_what_rules_and_posture_allow(covered: Coverage, otherwise: Otherwise) -> None:
    assert decide(Facts(False, "denied", covered, otherwise)) == Finding("deny", "hook")


@pytest.mark.parametrize(
    ("chain", "covered", "otherwise"),
    list(product(["nobody_asked", "no_objection", "granted"], ["internal", "rule", "posture"], Otherwise)),
)
def test_what_is_covered_runs_if_nobody_objects(chain: ChainSays, covered: Coverage, otherwise: Otherwise) -> None:
    assert decide(Facts(False, chain, covered, otherwise)) == Finding("run", covered)


@pytest.mark.parametrize("chain", ["nobody_asked", "no_objection", "granted"])
def test_otherwise_deny_denies_the_rest(chain: ChainSays) -> None:
    assert decide(Facts(False, chain, "nothing", Otherwise.DENY)) == Finding("deny", "policy")


@pytest.mark.parametrize("chain", ["nobody_asked", "no_objection", "granted"])
def test_otherwise_ask_asks_about_the_rest(chain: ChainSays) -> None:
    assert decide(Facts(False, chain, "nothing", Otherwise.ASK)) == Finding("ask", "policy")


def test_otherwise_chain_runs_the_rest_if_one_that_may_grant_did_not_object() -> None:
    assert decide(Facts(False, "granted", "nothing", Otherwise.CHAIN)) == Finding("run", "grant")


@pytest.mark.parametrize("chain", ["nobody_asked", "no_objection"])
def test_otherwise_chain_denies_the_rest_if_none_that_may_grant_answered(chain: ChainSays) -> None:
    assert decide(Facts(False, chain, "nothing", Otherwise.CHAIN)) == Finding("deny", "policy")


@pytest.mark.parametrize("chain", ["nobody_asked", "no_objection", "granted"])
def test_otherwise_agent_leaves_the_rest_to_the_agent(chain: ChainSays) -> None:
    assert decide(Facts(False, chain, "nothing", Otherwise.AGENT)) == Finding("agent", "policy")


@given(known=facts)
def test_no_beats_everything(known: Facts) -> None:
    if known.deny_rule or known.chain == "denied":
        assert decide(known).result == "deny"


@given(known=facts)
def test_nothing_runs_that_was_neither_covered_nor_granted(known: Facts) -> None:
    if decide(known).result == "run":
        assert known.covered != "nothing" or (known.otherwise is Otherwise.CHAIN and known.chain == "granted")


@given(known=facts)
def test_only_a_policy_that_says_so_asks_or_leaves_it_to_the_agent(known: Facts) -> None:
    result = decide(known).result
    assert result != "ask" or known.otherwise is Otherwise.ASK
    assert result != "agent" or known.otherwise is Otherwise.AGENT


@given(known=facts)
def test_an_objection_more_never_lets_more_run(known: Facts) -> None:
    for worse in (
        Facts(True, known.chain, known.covered, known.otherwise),
        Facts(known.deny_rule, "denied", known.covered, known.otherwise),
    ):
        assert decide(worse).result == "deny"
