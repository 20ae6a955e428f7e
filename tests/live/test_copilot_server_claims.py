"""No capability of Copilot's server is claimed that no test on the real CLI shows."""

import ast
import runpy
from pathlib import Path

import pytest

from interlock_adapters.copilot.server.transport import Server

HERE = Path(__file__).parent
COPILOT_SERVER: dict[str, tuple[str, ...]] = runpy.run_path(str(HERE / "evidence.py"))["COPILOT_SERVER"]
claims = runpy.run_path(str(HERE / "test_claude_evidence.py"))["claims"]


def test_every_claim_has_evidence_and_nothing_else_has():
    assert sorted(claims(Server.capabilities)) == sorted(COPILOT_SERVER)


@pytest.mark.parametrize("claim", COPILOT_SERVER)
def test_the_evidence_is_a_test_on_the_real_cli(claim):
    assert COPILOT_SERVER[claim]
    for shown_by in COPILOT_SERVER[claim]:
        file, _, name = shown_by.partition("::")
        module = ast.parse((HERE.parent / file).read_text(encoding="utf-8"))
        found = [node for node in module.body if isinstance(node, ast.AsyncFunctionDef) and node.name == name]
        assert len(found) == 1, shown_by
        assert "copilot" in {argument.arg for argument in found[0].args.args}, f"{shown_by} drives no real CLI"
