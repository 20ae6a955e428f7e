"""Subjects of the conformance suite: the Claude adapter with its recordings."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings"


@pytest.fixture(scope="session")
def planted() -> ModuleType:
    """The module of planted bugs."""
    spec = importlib.util.spec_from_file_location("planted", Path(__file__).with_name("planted.py"))
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def recordings_folder() -> Path:
    """Where the recordings lie."""
    return RECORDINGS
