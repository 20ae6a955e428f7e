"""Plan mode: where the agent writes its plan down, and what it last wrote there.

2.1.332 keeps the plan in a file of its config home and submits it with an empty ExitPlanMode; 2.1.197 names the plan in
the call too. The file is private to the run, so writing it changes nothing of the user's.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from interlock.model import JsonValue
from interlock_adapters.claude.calls import CallState
from interlock_adapters.claude.wire import HookInput

__all__ = ["Planning"]

SUBMITS = "ExitPlanMode"
FROM_FILE = frozenset({"plan", "planFilePath"})
_NAME = re.compile(r"[A-Za-z0-9_-]+\.md")


@dataclass(slots=True)
class Planning:
    """The plan of one run, if it plans."""

    plans: bool
    text: str = ""

    def noted(self, told: HookInput, state: CallState) -> None:
        """A call before it runs: the plan file is known by the folder of the session file that the CLI names."""
        native = told.tool_input
        if state.name == SUBMITS:
            state.asked = native
        if not self.plans or told.permission_mode != "plan" or not isinstance(native, dict):
            return
        match state.name, native:
            case "Write" | "Edit", {"file_path": str(path)} if self._is_plan_file(told, path):
                state.is_plan_file = True
                content = native.get("content")
                self.text = content if isinstance(content, str) else self._edited(native)
            case "ExitPlanMode", {"plan": str(plan)}:
                self.text = plan
            case _:
                return

    @staticmethod
    def is_submitted(told: HookInput, state: CallState) -> bool:
        """Whether a submitted plan ran as it was asked for: 2.1.332 adds what its plan file holds to the input."""
        asked, ran = state.asked, told.tool_input
        if state.name != SUBMITS or not isinstance(asked, dict) or not isinstance(ran, dict):
            return False
        return all(asked.get(key, ran[key]) == ran[key] for key in ran if key in FROM_FILE) and {
            key: value for key, value in ran.items() if key not in FROM_FILE
        } == {key: value for key, value in asked.items() if key not in FROM_FILE}

    def words(self, state: CallState) -> str:
        """What the agent says with a call: the plan, where it submits one."""
        return self.text if self.plans and state.name == SUBMITS else ""

    def _edited(self, native: dict[str, JsonValue]) -> str:
        match native:
            case {"old_string": str(old), "new_string": str(new)}:
                return self.text.replace(old, new, 1)
            case _:
                return self.text

    @staticmethod
    def _is_plan_file(told: HookInput, path: str) -> bool:
        home, found, _ = (told.transcript_path or "").rpartition("/projects/")
        folder, name = posixpath.split(path)
        return bool(found) and folder == f"{home}/plans" and _NAME.fullmatch(name) is not None
