"""No capability of Copilot's server is claimed that no test on the real CLI shows."""

import runpy
from pathlib import Path

import pytest

from interlock_adapters.copilot.server.transport import Server

TESTS = Path(__file__).parents[1]
SHARED = runpy.run_path(str(Path(__file__).parent / "evidence.py"))
COPILOT_SERVER, claims, fixtures_of = SHARED["COPILOT_SERVER"], SHARED["claims"], SHARED["fixtures_of"]


def test_every_claim_has_evidence_and_nothing_else_has():
    assert sorted(claims(Server.capabilities)) == sorted(COPILOT_SERVER)


@pytest.mark.parametrize("claim", COPILOT_SERVER)
def test_the_evidence_is_a_test_on_the_real_cli(claim):
    assert COPILOT_SERVER[claim]
    for shown_by in COPILOT_SERVER[claim]:
        assert "copilot" in fixtures_of(TESTS, shown_by), f"{shown_by} drives no real CLI"
