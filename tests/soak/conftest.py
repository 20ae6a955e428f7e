"""How long to go on: the short form runs with every change, the long one where `INTERLOCK_LONG` is 1."""

import os
from pathlib import Path

import pytest
from tests.engine.conftest import bench

from interlock_fixtures.recording import Recording, find_recordings

__all__ = ["bench"]

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings"


@pytest.fixture(scope="session")
def long() -> bool:
    """Whether there is time."""
    return os.environ.get("INTERLOCK_LONG") == "1"


@pytest.fixture(scope="session")
def recordings() -> list[Recording]:
    """Every kept recording."""
    return find_recordings(RECORDINGS)
