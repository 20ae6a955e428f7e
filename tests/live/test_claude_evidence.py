"""No capability is claimed that no test on the real CLI shows."""

import runpy
from pathlib import Path

import pytest

from interlock_adapters.claude import adapter

TESTS = Path(__file__).parents[1]
SHARED = runpy.run_path(str(Path(__file__).parent / "evidence.py"))
CLAUDE, claims, fixtures_of = SHARED["CLAUDE"], SHARED["claims"], SHARED["fixtures_of"]


def test_every_claim_has_evidence_and_nothing_else_has():
    (transport,) = adapter.transports
    assert sorted(claims(transport.capabilities)) == sorted(CLAUDE)


@pytest.mark.parametrize("claim", CLAUDE)
def test_the_evidence_is_a_test_on_the_real_cli(claim):
    assert CLAUDE[claim]
    for shown_by in CLAUDE[claim]:
        assert fixtures_of(TESTS, shown_by) & {"live", "driver"}, f"{shown_by} drives no real CLI"
