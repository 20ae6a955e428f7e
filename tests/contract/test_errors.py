"""The error tree is the one that is drawn, and every error carries its data wherever it goes."""

import copy
import pickle
import re

import pytest

from interlock import errors
from interlock.capabilities import Unmet
from interlock.errors import (
    AgentError,
    BatchBusy,
    BatchError,
    ConfigurationError,
    ContractError,
    ExecutorFailed,
    InterlockError,
    JournalDamaged,
    JournalFailed,
    NotInstalled,
    NotOpen,
    RunEnded,
    RunFailed,
    SessionBusy,
    StartFailed,
    TasksChanged,
    UnknownAgent,
    Unsupported,
)
from interlock.outcome import Outcome, Reason, Status

UNMET = (
    Unmet(field="images", value="1", reason="takes no images", alternatives=("leave it out",)),
    Unmet(field="effort", value="max", reason="does not know this effort", alternatives=("effort=low", "effort=high")),
)
OUTCOME = Outcome(run_id="r", agent="claude", status=Status.FAILED, reason=Reason.AUTH, message="log in")
SAMPLES = [
    (ContractError("no"), "no"),
    (
        Unsupported("claude", UNMET),
        """\
claude cannot do what this request asks for:
  - images=1: takes no images (leave it out)
  - effort=max: does not know this effort (effort=low; or effort=high)""",
    ),
    (UnknownAgent("cloud", ["claude", "codex"]), "no adapter is named 'cloud'; installed: claude, codex"),
    (UnknownAgent("cloud", []), "no adapter is named 'cloud'; installed: none"),
    (ConfigurationError("hooks.json", "is no JSON"), "hooks.json: is no JSON"),
    (NotOpen("a1", "it was answered before"), "'a1' cannot be answered: it was answered before"),
    (RunEnded("r1"), "run r1 is over"),
    (
        SessionBusy("claude", "s1"),
        "another run goes on with the session s1 of claude; wait for its end, or fork it",
    ),
    (AgentError("no"), "no"),
    (
        NotInstalled("claude", ["claude"], "npm install it"),
        "claude is not installed (looked for claude); npm install it",
    ),
    (NotInstalled("claude", ["/a", "/b"]), "claude is not installed (looked for /a, /b)"),
    (StartFailed("/bin/x", "permission denied"), "cannot start /bin/x: permission denied"),
    (RunFailed(OUTCOME), "claude run failed (auth): log in"),
    (BatchError("out", "no"), "batch out: no"),
    (BatchBusy("out", "process 7"), "batch out: another driver has it (process 7)"),
    (
        TasksChanged("out", "task 3 is another"),
        "batch out: task 3 is another; resume it with the tasks it has, or use another folder",
    ),
    (JournalDamaged("out", "batch.jsonl", 7, "it is cut"), "batch out: batch.jsonl:7: it is cut"),
    (JournalDamaged("out", "batch.json", 0, "it is empty"), "batch out: batch.json: it is empty"),
    (
        JournalFailed("out", "batch.jsonl", "the disk is full"),
        "batch out: batch.jsonl cannot be written: the disk is full; nothing more is started, and it can be resumed",
    ),
    (
        ExecutorFailed("out", "the scheduler is gone"),
        "batch out: the executor can be used no more: the scheduler is gone; it can be resumed with another",
    ),
]
each = pytest.mark.parametrize(("error", "words"), SAMPLES, ids=lambda value: type(value).__name__)


def drawn() -> dict[str, tuple[str | None, set[str]]]:
    """Each error in the drawing: its parent in the drawing and the attributes beside it."""
    tree: dict[str, tuple[str | None, set[str]]] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^([ |+-]*)([A-Z]\w+)(?:\s{2,}(.*))?$", line)
        if not found or not line.startswith("    "):
            continue
        indent, name, rest = len(found[1]), found[2], found[3] or ""
        above = [(depth, parent) for depth, parent in above if depth < indent]
        tree[name] = (above[-1][1] if above else None, set(re.findall(r"(?:^|, )\.(\w+)", rest)))
        above.append((indent, name))
    return tree


def real(root: type[InterlockError] = InterlockError) -> dict[str, str | None]:
    tree = {root.__name__: root.__base__.__name__ if root.__base__ is not Exception and root.__base__ else None}
    for child in root.__subclasses__():
        tree |= real(child)
    return tree


def test_the_tree_is_the_one_that_is_drawn() -> None:
    assert {name: parent for name, (parent, _) in drawn().items()} == real()
    assert set(real()) == set(errors.__all__)


def test_every_error_of_the_tree_is_tried_here() -> None:
    assert {type(error).__name__ for error, _ in SAMPLES} | {"InterlockError"} == set(real())


@each
def test_an_error_carries_the_data_that_the_drawing_says(error: InterlockError, words: str) -> None:
    assert str(error) == words
    assert set(vars(error)) == drawn()[type(error).__name__][1]


@each
@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_an_error_survives_the_way_between_processes(error: InterlockError, words: str, again: object) -> None:
    assert callable(again)
    error.add_note("seen on worker 3")
    back = again(error)
    assert type(back) is type(error)
    assert str(back) == words
    assert vars(back) == vars(error)
    del error.__notes__


def test_every_reason_is_kept() -> None:
    assert Unsupported("claude", list(UNMET)).unmet == UNMET
