"""Where the kept recordings lie."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def recordings_root() -> Path:
    """The folder of all kept recordings."""
    return Path(__file__).parents[2] / "fixtures" / "recordings"
