"""Fixtures that every test may use, and which tests belong to the long group (`INTERLOCK_LONG=1`).

The short group has to be through in minutes on two cores, and nearly all its time is that of real processes. So there
- the oldest pinned Claude Code runs what its wire may change most (decisions, failing hooks), and its recordings;
- what shows through the codec alone what is shown through the whole engine too waits;
- a test of real processes in the engine or a batch takes one of the two event loops, every other test the other one;
- of a test that is marked sampled, for its many like cases, the first runs;
- what is marked slow waits, some of it since another agent shows it as well.
"""

import os
import zlib

import pytest
from hypothesis import settings

settings.register_profile("untimed", settings(), deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")

LONG = os.environ.get("INTERLOCK_LONG") == "1"
WITH_OLDEST = frozenset({"test_claude_calls", "test_claude_hook_matrix"})
SHOWN_TWICE = frozenset({"test_live_calls", "test_live_outputs"})
ON_ONE_LOOP = (
    "test_attacks", "test_driver", "test_kills", "test_lifeline", "test_process", "test_pty", "test_resident_hook",
    "test_run_", "test_seam", "test_subprocess_hook", "test_trouble", "test_workspaces",
)  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long group out unless it is asked for; pytest says how many that are."""
    if LONG:
        return
    kept: list[pytest.Item] = []
    spared: list[pytest.Item] = []
    begun: set[tuple[str, str]] = set()
    for item in items:
        function = (str(item.path), _function(item))
        again = function in begun and item.get_closest_marker("sampled") is not None
        if again or _is_long(item):
            spared.append(item)
        else:
            kept.append(item)
            begun.add(function)
    if spared:
        config.hook.pytest_deselected(items=spared)
        items[:] = kept


def _function(item: pytest.Item) -> str:
    """The test without its case."""
    return item.name.partition("[")[0]


def _is_long(item: pytest.Item) -> bool:
    if item.get_closest_marker("slow") or item.path.stem in SHOWN_TWICE:
        return True
    called = getattr(item, "callspec", None)
    params = called.params if called else {}
    loop = params.get("anyio_backend")
    if loop and item.path.stem.startswith(ON_ONE_LOOP) and loop != _loop_of(item):
        return True
    if "oldest" not in {params.get("claude_which"), params.get("driver")}:
        return False
    return loop == "trio" or item.path.stem not in WITH_OLDEST


def _loop_of(item: pytest.Item) -> str:
    """The event loop that a test takes in the short group: the same on every machine."""
    return ("asyncio", "trio")[zlib.crc32(_function(item).encode()) % 2]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every async test on both event loops."""
    return str(request.param)
