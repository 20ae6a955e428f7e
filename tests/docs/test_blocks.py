"""Every code block of the README, the docs and the examples' pages is run.

Python runs with the scripted agent as `claude` and the real CLIs of the others; commands run in order, page by page, in
a folder with the files that pages speak of; JSON and TOML go through the loader that they belong to. What is not run
stands in one of the lists below, with the reason; a block, a line or an entry of these lists that is new or gone fails.
"""

import ast
import json
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from tests.docs.blocks import Block, blocks
from tests.docs.drivers import DRIVERS, EXPECTED
from tests.docs.world import World

from interlock import ConfigurationError, decision_adapter
from interlock.engine.hooks_file import read_hooks_file
from interlock.engine.policy_file import read_policy
from interlock.engine.registry import find_adapter
from interlock.hooks import outcome_adapter

BLOCKS = {block.id: block for block in blocks()}
BATCHES = "tests/cli/test_batch_example.py runs it"
CLUSTERS = "tests/dask/test_docs.py runs it"
SERVES = "it serves until it is stopped: tests/examples/test_web_approvals.py runs it"
TERMINAL = "it needs a terminal and a person: tests/cli/test_attach.py and tests/live/test_attach_live.py play one"
NOT_RUN = {
    ("README", "python -m pytest"): "this is the suite itself; .ci/run reads the command from here",
    ("adapter", "[project.entry-points"): "the lines of examples/third_party/pyproject.toml, compared below",
    ("approvals-ui", "python -m web_approvals --offline"): SERVES,
    ("attach", "interlock attach -a claude"): TERMINAL,
    ("commands", "interlock attach -a claude"): TERMINAL,
    ("commands", "interlock login claude"): "it logs a person in: tests/cli/test_login.py has a stand-in",
    ("batch", "interlock batch examples/batch/tasks.jsonl"): BATCHES,
    ("commands", "interlock doctor --guard claude"): "half a minute: tests/cli/test_doctor_guard.py runs it",
    ("commands", 'interlock batch --prompt "update'): "paid models by name: tests/cli/test_batch.py has the options",
    ("dask", "dask scheduler"): CLUSTERS,
    ("dask", "from interlock import ChainNames"): CLUSTERS,
    ("dask", "export DASK_"): "tests/dask/test_docs.py has a cluster with TLS",
    ("dask", "from dask_jobqueue"): "it needs Slurm",
    ("examples/batch/README", "interlock batch examples/batch/tasks.jsonl --out runs"): BATCHES,
    ("examples/batch/README", "interlock batch examples/batch/tasks.jsonl --out killed"): BATCHES,
    ("examples/batch/README", "mkdir -p app site"): BATCHES,
    (
        "examples/terminal/README",
        "$ interlock run -a terminal:",
    ): "a person: tests/cli/test_run_on_terminals.py plays one",
    ("examples/web_approvals/README", "python -m web_approvals --offline"): SERVES,
    ("examples/web_approvals/README", "python -m web_approvals ~/project"): "the same, with the logins of a person",
    ("offline", "agent="): "it asks a person: tests/docs/test_offline.py plays one, for each agent",
    ("terminal", "$ interlock run -a terminal:aider"): "a paid model: tests/live/test_terminal_aider.py runs aider",
}
"""By page and the words that a block begins with, which stay when others are put before it."""
VENDORS = {"migrating:python0", "migrating:python2", "migrating:python4"}
"""Code for the vendors' SDKs, which are not installed here: it is compiled and no more, and its title says so."""
LINES_NOT_RUN = {
    "pip install .": "the wheel is installed by .ci/run",
    "interlock demo": "it asks a person; `interlock demo --yes` is run",
}
CODES = {"interlock replay recordings --fault cut-at=2000": 1}
"""Exit codes other than 0."""
REAL = {
    "examples/ci_reviewer/README:sh1": "claude",
    "migrating:python3": "codex",
    "migrating:python5": "copilot",
    "testing:sh0": "claude",
}
PARROT = {"adapter:python1"}
RECORDED = {"testing:python2"}
SAID = {
    "commands": ("greeting.txt", "Done.", "push", "not here"),
    "quickstart": ("greeting.txt", "Done."),
    "guard": ("not here",),
    "hooks": ("not here",),
    "testing": ("1 passed",),
    "examples/team_guard/README": ("push", "2 passed"),
    "examples/ci_reviewer/README": ("::error file=prices.py,line=2::",),
}
"""What must stand on stdout of the commands of a page."""


def reason_against(block: Block) -> str | None:
    """Why a block is not run, None if it is."""
    found = [why for (page, begins), why in NOT_RUN.items() if page == block.page and block.text.startswith(begins)]
    return found[0] if found else None


def of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS.values() if block.language in languages and reason_against(block) is None]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path, stack)


def test_the_lists_name_blocks_that_exist_and_every_language_is_known() -> None:
    for page, begins in NOT_RUN:
        found = [block for block in BLOCKS.values() if block.page == page and block.text.startswith(begins)]
        assert len(found) == 1, (page, begins)
    named = {*VENDORS, *REAL, *PARROT, *RECORDED, *DRIVERS, *EXPECTED}
    assert named - set(BLOCKS) == set()
    assert set(SAID) <= {block.page for block in BLOCKS.values()}
    assert {block.language for block in BLOCKS.values()} <= {"", "python", "sh", "console", "json", "toml", "yaml"}
    assert all("not run" in BLOCKS[name].more for name in VENDORS)
    lines = {line for block in of("sh", "console") for line in commands(block)}
    assert {*LINES_NOT_RUN, *CODES} <= lines


@pytest.mark.parametrize("name", [block.id for block in of("")])
def test_a_block_without_a_language_holds_nothing_to_run(name: str) -> None:
    starts = ("$ ", "interlock ", "python ", "pip ", "import ", "from ")
    assert [line for line in BLOCKS[name].text.splitlines() if line.startswith(starts)] == []


# ---- Python ---------------------------------------------------------------------------------------------------------


def only_defines(source: str) -> bool:
    """Whether nothing happens when this is imported, although there are functions or classes."""
    body = ast.parse(source).body
    defining = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    quiet = (*defining, ast.Import, ast.ImportFrom)
    return all(isinstance(one, quiet) for one in body) and any(isinstance(one, defining) for one in body)


@pytest.mark.parametrize("name", [block.id for block in of("python")])
def test_python_runs(name: str, world: World) -> None:
    source = BLOCKS[name].text
    if name in VENDORS:
        compile(source, name, "exec")
        return
    if "guarded_run" in source:
        (world.work / "test_block.py").write_text(source)
        done = world.run("pytest", "-q", "-p", "no:cacheprovider", "test_block.py")
        assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr
        return
    if "serve(before=" in source:
        is_a_hook_in_python(source, world)
        return
    if name in REAL:
        world.real(REAL[name])
    if name in RECORDED:
        world.recorded()
    if name in PARROT:
        source_root = str(world.work / "examples" / "third_party")
        world.env["PYTHONPATH"] += ":" + installed_parrot(world, source_root)
    driver = DRIVERS.get(name, "")
    assert driver or name == "adapter:python0" or not only_defines(source), "nothing calls what this block defines"
    source = source.replace("/usr/local/bin/claude", str(world.bin / "claude"))
    (world.work / "block.py").write_text(source + driver)
    done = world.run("python", "block.py", stdin="n\n" * 3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert EXPECTED.get(name, "") in done.stdout


def installed_parrot(world: World, source: str) -> str:
    """A path on which the parrot is found by its entry point, as an installation would make it."""
    site = world.folder / "site"
    info = site / "interlock_parrot-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: interlock-parrot\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[interlock.adapters]\nparrot = interlock_parrot:adapter\n")
    return f"{site}:{source}"


def is_a_hook_in_python(source: str, world: World) -> None:
    """A guard as a program: it refuses what its page says, and lets the rest pass."""
    (world.folder / "guard.py").write_text(source)
    hook = {"name": "guard", "command": [sys.executable, "guard.py"], "timeout": 20}
    refuses(hook, world)


def refuses(hook: dict[str, object], world: World) -> None:
    (world.folder / "own.json").write_text(json.dumps({"schema": 1, "hooks": [hook]}))
    for command, decision in (("git push && touch app/migrations/0001.py", "deny"), ("ls", "allow")):
        call = json.dumps({"tool_name": "Bash", "input": {"command": command}})
        done = world.run("interlock", "hooks", "try", "../own.json", call, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        assert f'"decision":"{decision}"' in done.stdout.replace('": "', '":"'), done.stdout


def test_the_adapter_of_the_page_is_the_one_of_the_example() -> None:
    example = Path(__file__).parents[2] / "examples" / "third_party"
    code = (example / "interlock_parrot.py").read_text("utf-8").split('"""\n\n', 1)[1]
    assert BLOCKS["adapter:python0"].text == code
    assert BLOCKS["adapter:toml0"].text in (example / "pyproject.toml").read_text("utf-8")


def test_the_guard_of_the_testing_page_is_the_one_of_the_example() -> None:
    example = Path(__file__).parents[2] / "examples" / "test_my_guard.py"
    assert BLOCKS["testing:python0"].text == example.read_text("utf-8").split('"""\n\n', 1)[1]


# ---- Commands -------------------------------------------------------------------------------------------------------


def commands(block: Block) -> list[str]:
    """The commands of a block, one a line; of a console what stands behind `$ `."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    return [line.partition("  #")[0].strip() for line in lines if line.strip() and not line.startswith("#")]


def script(block: Block) -> str:
    """All that is run of a block, ending at the first command that ends otherwise than it must."""
    run = [line for line in commands(block) if line not in LINES_NOT_RUN]
    return "\n".join(f"{{ {line} ; }} || test $? = {CODES[line]}" if line in CODES else line for line in run)


@pytest.mark.timeout(300)  # a page of commands is many processes
@pytest.mark.parametrize("page", sorted({block.page for block in of("sh", "console")}))
def test_commands_run_in_order(page: str, world: World) -> None:
    if page.startswith("examples/"):
        world.work = world.work / page.removesuffix("/README")
    said = ""
    for block in of("sh", "console"):
        if block.page == page and block.text.startswith("#!/bin/sh"):
            (world.folder / "guard.sh").write_text(block.text)
            refuses({"name": "guard", "command": ["sh", "guard.sh"], "timeout": 20}, world)
        elif block.page == page:
            if block.id in REAL:
                world.real(REAL[block.id])
            done = world.run("bash", "-euo", "pipefail", "-c", script(block))
            assert done.returncode == 0, f"{block.id}\n{done.stdout}\n{done.stderr}"
            said += done.stdout
    assert [words for words in SAID.get(page, ()) if words not in said] == []


# ---- Data -----------------------------------------------------------------------------------------------------------


def lines_of(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", [block.id for block in of("json")])
def test_json_is_read_by_what_reads_it(name: str, world: World) -> None:
    text = BLOCKS[name].text
    if '"hooks"' in text:
        path = world.work / "block.json"
        path.write_text(text)
        assert read_hooks_file(str(path), must_exist=True)
        return
    read = decision_adapter() if "approve" in text else outcome_adapter()
    assert [read.validate_python(one) for one in lines_of(text)]


@pytest.mark.parametrize("name", [block.id for block in of("toml")])
def test_toml_is_read_by_what_reads_it(name: str, world: World) -> None:
    text = BLOCKS[name].text
    if "schema" in tomllib.loads(text):
        path = world.work / "block.toml"
        path.write_text(text)
        assert read_policy(str(path), must_exist=True)
        return
    profile = world.work / "block-profile.toml"
    profile.write_text(text)
    assert find_adapter(f"terminal:{profile}").transports
    profile.write_text(text + "\nsurprise = 1\n")
    with pytest.raises(ConfigurationError):
        find_adapter(f"terminal:{profile}")


@pytest.mark.parametrize("name", [block.id for block in of("yaml")])
def test_yaml_is_a_list_of_steps(name: str) -> None:
    assert all({"run"} <= set(step) <= {"run", "env"} for step in yaml.safe_load(BLOCKS[name].text))
