"""The real CLIs: where one is not installed its tests are skipped, or fail where the environment requires it."""

from pathlib import Path

import pytest

from interlock_fixtures.clis import CliMissing, Which, clis_required, require_cli


@pytest.fixture(params=["oldest", "newest"])
def claude_which(request: pytest.FixtureRequest) -> Which:
    """Which end of the tested range of Claude Code: `oldest` or `newest`."""
    return "oldest" if request.param == "oldest" else "newest"


@pytest.fixture
def claude_cli(claude_which: Which) -> Path:
    """The native executable of the real Claude Code at that end."""
    return installed("claude", claude_which)


def installed(name: str, which: Which) -> Path:
    """The CLI, or the reason for which the test cannot run."""
    try:
        return require_cli(name, which)
    except CliMissing as missing:
        if clis_required():
            raise
        pytest.skip(str(missing))
