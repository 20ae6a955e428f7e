"""The paths that a patch in the format of OpenAI's models touches, read out of its text. Codex and Copilot take it.

Read generously: a line that could be a header counts as one, wherever it stands, so that a rule about a path sees the
path. What is no patch at all has no paths, and no posture but `full` covers a patch without paths.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["Touched", "is_patch", "touched"]

_HEADER = re.compile(
    r"^[ \t]*\*\*\*[ \t]+(?P<what>Add File|Update File|Delete File|Move to):[ \t]*(?P<path>.*?)[ \t\r]*$", re.MULTILINE
)
_CHANGES: dict[str, Literal["add", "update", "delete"]] = {
    "Add File": "add",
    "Update File": "update",
    "Delete File": "delete",
    "Move to": "add",
}


@dataclass(frozen=True, slots=True)
class Touched:
    """One path of a patch, as written there."""

    path: str
    change: Literal["add", "update", "delete"]


def is_patch(text: str) -> bool:
    """Whether the text begins as a patch does."""
    return text.lstrip().startswith("*** Begin Patch")


def touched(text: str) -> tuple[Touched, ...]:
    """Every path that the patch names, in order, without repetition."""
    found = [Touched(match["path"], _CHANGES[match["what"]]) for match in _HEADER.finditer(text) if match["path"]]
    return tuple(dict.fromkeys(found))
