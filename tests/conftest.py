"""Fixtures that every test may use, and which tests belong to the long group.

The real CLIs take a second or more a run. Without INTERLOCK_LONG=1 the oldest pinned version runs what its wire may
change (decisions, outputs, approvals, turns, failing hooks, honesty) on one event loop; the newest runs everything but
what shows through the codec alone what is shown through the whole engine too. What is marked slow waits as well.
"""

import os

import pytest
from hypothesis import settings

settings.register_profile("untimed", settings(), deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")

LONG = os.environ.get("INTERLOCK_LONG") == "1"
WITH_OLDEST = frozenset({
    "test_claude_approvals", "test_claude_calls", "test_claude_honesty", "test_claude_hook_matrix",
    "test_claude_outputs", "test_claude_turns", "test_coverage_live",
})  # fmt: skip
SHOWN_TWICE = frozenset({"test_live_calls", "test_live_outputs"})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long group out unless it is asked for; pytest says how many that are."""
    spared = [] if LONG else [item for item in items if _is_long(item)]
    if spared:
        config.hook.pytest_deselected(items=spared)
        left_out = set(spared)
        items[:] = [item for item in items if item not in left_out]


def _is_long(item: pytest.Item) -> bool:
    if item.get_closest_marker("slow") or item.path.stem in SHOWN_TWICE:
        return True
    called = getattr(item, "callspec", None)
    params = called.params if called else {}
    if "oldest" not in {params.get("claude_which"), params.get("driver")}:
        return False
    return params.get("anyio_backend") == "trio" or item.path.stem not in WITH_OLDEST


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every async test on both event loops."""
    return str(request.param)
