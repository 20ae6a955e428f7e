"""No capability is claimed that no test on the real CLI shows."""

import ast
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.capabilities import EVERY_KIND, Capabilities
from interlock_adapters.claude import adapter

TESTS = Path(__file__).parents[1]
CLAUDE: dict[str, tuple[str, ...]] = runpy.run_path(str(Path(__file__).parent / "evidence.py"))["CLAUDE"]
NO_CLAIMS = {"agent", "transport", "versions", "tamperable", "absent", "unbacked"}
"""Names, and admissions."""


def claims(can: Capabilities) -> Iterator[str]:
    """All that the adapter says it can do, and each hole that it says it closes."""
    for name in sorted(set(type(can).model_fields) - NO_CLAIMS):
        match getattr(can, name):
            case bool(offered):
                yield from [name] if offered else []
            case str(sight):
                yield from [f"{name}:{sight}"] if sight != "none" else []
            case frozenset() | tuple() as several if name == "holes":
                yield from (f"hole:{hole.what}" for hole in several if hole.closed_by)
            case frozenset() as kinds if kinds == EVERY_KIND:
                yield name
            case frozenset() | tuple() as several:
                yield from (f"{name}:{one}" for one in several)
            case other:
                raise TypeError(f"what kind of claim is {name}={other!r}?")


def test_every_claim_has_evidence_and_nothing_else_has():
    (transport,) = adapter.transports
    assert sorted(claims(transport.capabilities)) == sorted(CLAUDE)


@pytest.mark.parametrize("claim", CLAUDE)
def test_the_evidence_is_a_test_on_the_real_cli(claim):
    assert CLAUDE[claim]
    for shown_by in CLAUDE[claim]:
        file, _, name = shown_by.partition("::")
        module = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        found = [
            node
            for node in module.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
        ]
        assert len(found) == 1, shown_by
        given = {argument.arg for argument in found[0].args.args}
        assert given & {"live", "driver"}, f"{shown_by} drives no real CLI"
