"""The table of troubles names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs" / "cases.md").read_text(encoding="utf-8"))


def test_the_table_names_tests():
    assert len(NAMED) > 50


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED)))
def test_a_test_that_is_named_exists(file, name):
    assert re.search(rf"^(async )?def test_{name}\(", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE)
