"""The page of tampering has a line for every transport under every case, and names tests that exist."""

import re
from pathlib import Path

import pytest

from interlock.engine.registry import find_adapter, known_agents

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "tampering.md").read_text(encoding="utf-8")
CASES = {part.partition("\n")[0]: part for part in TEXT.split("\n## ")[1:]}
TRANSPORTS = sorted(
    f"{name} over {transport.name}"
    for name in known_agents()
    if type(find_adapter(name)).__module__.startswith("interlock_adapters.") and ":" not in name
    for transport in find_adapter(name).transports
)
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", TEXT)))


def test_every_case_is_there():
    numbers = [title.partition(" ")[0] for title in CASES]
    assert numbers == ["0"] * 4 + [f"T{number}" for number in range(1, 11)]


@pytest.mark.parametrize("title", CASES)
def test_a_case_has_one_line_for_every_transport(title):
    lines = dict(re.findall(r"^- (\w+ over [\w-]+): (.+)$", CASES[title], re.MULTILINE))
    assert sorted(lines) == TRANSPORTS
    assert [one for one, said in lines.items() if not re.search(r"::\w+`|^none, \w+", said)] == []


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_is_named_exists(file, name):
    assert re.search(rf"^(async )?def test_{name}\(", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE)
