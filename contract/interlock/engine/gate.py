"""One pure function decides about a call, the same for every agent.

No beats everything; then what you allowed; then what you said for the rest:

    deny rule  chain                 allow rule or posture  otherwise  result
    yes        not asked             any                    any        denied by the rule
    no         denied, or broken     any                    any        denied by the hook
    no         anything else         covers it              any        runs
    no         anything else         no                     deny       denied by the policy
    no         anything else         no                     ask        a person is asked
    no         granted               no                     chain      runs
    no         not granted           no                     chain      denied by the policy
    no         anything else         no                     agent      the agent's own flow decides
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from interlock.permission import Otherwise

__all__ = ["ChainSays", "Coverage", "Facts", "Finding", "decide"]

ChainSays = Literal["nobody_asked", "no_objection", "granted", "denied"]
"""`granted`: one that may grant was asked and nobody objected. A broken participant denies."""
Coverage = Literal["internal", "rule", "posture", "nothing"]
"""What lets the call run unasked."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the decision depends on."""

    deny_rule: bool
    chain: ChainSays
    covered: Coverage
    otherwise: Otherwise


@dataclass(frozen=True, slots=True)
class Finding:
    """What becomes of the call, and who said so."""

    result: Literal["run", "deny", "ask", "agent"]
    by: Literal["rule", "hook", "internal", "posture", "policy", "grant"]


def decide(facts: Facts) -> Finding:
    """The table."""
    if facts.deny_rule:
        return Finding("deny", "rule")
    if facts.chain == "denied":
        return Finding("deny", "hook")
    if facts.covered != "nothing":
        return Finding("run", facts.covered)
    match facts.otherwise:
        case Otherwise.DENY:
            return Finding("deny", "policy")
        case Otherwise.ASK:
            return Finding("ask", "policy")
        case Otherwise.CHAIN:
            return Finding("run", "grant") if facts.chain == "granted" else Finding("deny", "policy")
        case Otherwise.AGENT:
            return Finding("agent", "policy")
        case _:
            assert_never(facts.otherwise)
