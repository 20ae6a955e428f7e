"""What `import interlock` gives: exactly the documented names, and nothing loaded before it is used."""

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import interlock

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/api.md").read_text(encoding="utf-8")
APPLICATION = "approval errors events hooks outcome permission request tools"
ENGINES = {"stamp"}
"""Public in a module of the contract, and yet not for applications."""
HEAVY = ("anyio", "asyncio", "h11", "pexpect", "pydantic", "pydantic_core", "rich", "trio", "typer", "typing")


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_api", ROOT / "docs/generate_api.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has after this code and had not before it."""
    program = f"import sys; before = set(sys.modules); {code}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_each_name_is_there_once() -> None:
    assert len(interlock.__all__) == len(set(interlock.__all__))
    assert set(interlock.__all__) <= set(dir(interlock))


def test_the_names_are_exactly_the_documented_ones() -> None:
    applications = PAGE[PAGE.index("## For applications") : PAGE.index("## For adapters")]
    assert sorted(re.findall(r"^- `(\w+)`: \S", applications, re.MULTILINE)) == sorted(interlock.__all__)


def test_the_page_of_names_is_up_to_date() -> None:
    assert generator().page() == PAGE, "run `python docs/generate_api.py`"


def test_type_checkers_see_the_names_that_are_there_at_run_time() -> None:
    source = Path(interlock.__file__).read_text(encoding="utf-8")
    imported = re.findall(r"from (interlock\.[\w.]+) import (?:\(([^)]*)\)|([^\n]*))", source)
    seen = {
        module: re.findall(r"\w+", long or short)
        for module, long, short in imported
        if module in generator().exported()
    }
    assert {module: sorted(names) for module, names in seen.items()} == {
        module: sorted(names) for module, names in generator().exported().items()
    }


@pytest.mark.parametrize("name", interlock.__all__)
def test_a_name_is_the_one_of_its_module(name: str) -> None:
    (home,) = [module for module, names in generator().exported().items() if name in names]
    value = getattr(importlib.import_module(home), name)
    assert getattr(interlock, name) is (sys.modules["interlock.batch"] if name == "batch" else value)


@pytest.mark.parametrize("module", APPLICATION.split())
def test_every_public_name_for_applications_is_exported(module: str) -> None:
    assert set(importlib.import_module(f"interlock.{module}").__all__) - ENGINES <= set(interlock.__all__)


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="'interlock' has no attribute 'Requests'"):
        getattr(interlock, "Requests")  # noqa: B009 - a static checker would refuse the plain spelling


def test_importing_interlock_loads_no_dependency_and_no_model() -> None:
    loaded = loaded_by("import interlock")
    assert not loaded & set(HEAVY)
    assert {name for name in loaded if name.startswith("interlock")} == {"interlock"}


def test_request_and_run_load_neither_the_command_line_nor_the_engine() -> None:
    loaded = loaded_by("from interlock import Request, run")
    assert not loaded & {
        "rich",
        "typer",
        "pexpect",
        "pytest",
        "starlette",
        "uvicorn",
        "trio",
        "interlock_adapters",
        "interlock_fixtures",
    }
    assert {name for name in loaded if name.startswith("interlock.engine.")} == {"interlock.engine.shortcuts"}


def test_a_contract_module_alone_loads_no_engine() -> None:
    loaded = loaded_by("from interlock import Request, Outcome, Event, Unsupported")
    assert not loaded & {"anyio", "asyncio", "rich", "typer", "pexpect", "interlock.engine"}
