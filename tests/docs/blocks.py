"""The fenced blocks of the docs, the README and the examples' pages."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block, its language, what else stands behind that, and the how-manieth of its language it is on its page."""

    page: str
    language: str
    more: str
    number: int
    text: str

    @property
    def id(self) -> str:
        return f"{self.page}:{self.language or 'text'}{self.number}"


def pages() -> list[Path]:
    found = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*/README.md")]
    return sorted(found)


def blocks() -> list[Block]:
    """All of them; the pages are named by their path without `docs/` and `.md`."""
    found: list[Block] = []
    for page in pages():
        name = str(page.relative_to(ROOT)).removeprefix("docs/").removesuffix(".md")
        seen: Counter[str] = Counter()
        for fence in FENCE.finditer(page.read_text(encoding="utf-8")):
            language, _, more = fence["info"].strip().partition(" ")
            found.append(Block(name, language, more, seen[language], fence["text"]))
            seen[language] += 1
    return found
