"""Tasks: from lines, from code, as a matrix; and what makes a batch refuse them."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from interlock import (
    ConfigurationError,
    Copy,
    JournalDamaged,
    Request,
    Task,
    TasksChanged,
    matrix,
    read_tasks,
)
from interlock.batch.store import Store
from interlock.permission import Permission
from interlock.request import NewSession, Resume


def request(**more: Any) -> Request:
    return Request.model_validate({"agent": "claude", "prompt": "go", **more})


def write(path: Path, *lines: object) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n", "utf-8")
    return path


def test_a_line_is_a_request_with_an_id_and_a_workspace(tmp_path: Path) -> None:
    line = {"id": 7, "agent": "codex", "prompt": "a", "workspace": {"kind": "copy"}, "retry_lost": False}
    path = write(tmp_path / "t", line, "", {"prompt": "b"})
    first, second = read_tasks(path, {"agent": "claude", "cwd": "/tmp"})
    assert first == Task(
        id="7", request=request(agent="codex", prompt="a", cwd="/tmp"), workspace=Copy(), retry_lost=False
    )
    assert second == Task(request=request(prompt="b", cwd="/tmp"))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not one JSON object"),
        ("[1]", "not one JSON object"),
        ({"agent": "claude", "prompt": "a", "modle": "x"}, "`modle`"),
        ({"agent": "claude", "prompt": " "}, "`prompt`"),
        ({"agent": "claude", "prompt": "a", "id": "../x"}, "`id`"),
        *(
            ({"agent": "claude", "prompt": "a", "id": name}, "`id`")
            for name in (
                ".",
                "..",
                ".x",
                "a/b",
                "a\\b",
                "a\0b",
                "a\n",
                "\u00e9",
                "e\u0301",
                "\uff41",
                "a" * 101,
                "-x",
                True,
            )
        ),
        ('\ufeff{"agent": "claude", "prompt": "a"}', "not one JSON object"),
        ('{"agent": "claude", "prompt": "a\0"}', "not one JSON object"),
        ('{"agent": "claude", "prompt": "a"} {}', "not one JSON object"),
        ('{"agent": "claude", "prompt": "a", "limits": {"budget_usd": 1e999}}', "not one JSON object"),
        ('{"agent": "claude", "prompt": "a", "prompt": "b"}', "'prompt' is there twice"),
        ('{"agent": "claude", "prompt": "a", "env": {"A": "1", "A": "2"}}', "'A' is there twice"),
        ({"agent": "claude", "prompt": "a", "workspace": {"kind": "worktree", "base": "--force"}}, "base"),
    ],
)
def test_a_bad_line_is_named_with_its_file_and_number(tmp_path: Path, line: object, problem: str) -> None:
    path = write(tmp_path / "t", {"agent": "claude", "prompt": "fine"}, line)
    with pytest.raises(ConfigurationError, match=problem) as caught:
        list(read_tasks(path))
    assert caught.value.source == f"{path}:2"


def test_lines_may_end_as_on_windows_and_the_last_need_not_end(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b'{"agent": "claude", "prompt": "a"}\r\n\r\n{"agent": "claude", "prompt": "b"}')
    assert [task.request.prompt for task in read_tasks(tmp_path / "t")] == ["a", "b"]


def test_a_line_without_an_end_in_sight_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "t").touch()
    os.truncate(tmp_path / "t", 1 << 40)
    with pytest.raises(ConfigurationError, match="longer than"):
        next(iter(read_tasks(tmp_path / "t")))


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        list(read_tasks(tmp_path / "none"))


def test_a_matrix_has_each_combination_with_readable_ids(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    tasks = list(matrix(request(), agents=["claude", "codex"], models=["claude:opus", "big"], cwds=[str(a), str(b)]))
    assert [task.id for task in tasks][:3] == ["0001-claude-opus-a", "0002-claude-opus-b", "0003-claude-big-a"]
    assert {(t.request.agent, t.request.model, t.request.cwd) for t in tasks} == {
        (agent, model, str(cwd))
        for agent, model in (("claude", "opus"), ("claude", "big"), ("codex", "big"))
        for cwd in (a, b)
    }
    assert len(list(matrix(request(), repeats=3))) == 3
    assert len({task.id for task in matrix(request(), repeats=3)}) == 3


def test_what_goes_on_with_a_session_does_not_run_again_after_a_loss() -> None:
    assert Task(request=request()).may_run_again
    assert not Task(request=request(session=Resume(id="s"))).may_run_again
    assert not Task(request=request(session=NewSession(id="s"))).may_run_again
    assert Task(request=request(session=Resume(id="s")), retry_lost=True).may_run_again


def test_who_may_write_is_told_by_the_permission() -> None:
    assert not Task(request=request()).may_write
    for permission in ({"posture": "edit"}, {"allow": ["shell(make:*)"]}, {"otherwise": "ask"}):
        assert Task(request=request(permission=Permission.model_validate(permission))).may_write


# ---- in the folder of a batch ------------------------------------------------------------------------------------


def opened(folder: Path, tasks: list[Task | Request] | None) -> Store:
    store = Store.open(folder, tasks)
    store.close()
    return store


def test_tasks_lie_in_the_folder_for_their_owner_alone_and_paths_are_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    given: list[Task | Request] = [Task(id="x", request=request(cwd="link", add_dirs=["."])), request()]
    store = opened(tmp_path / "out", given)
    assert store.tasks.ids == ["x", "2"]
    assert store.tasks.read(0).request.cwd == str(tmp_path / "real")
    assert store.tasks.read(0).request.add_dirs == (str(tmp_path),)
    for name, mode in (("tasks.jsonl", 0o600), ("batch.json", 0o600), ("batch.lock", 0o600), (".", 0o700)):
        assert stat.S_IMODE((tmp_path / "out" / name).stat().st_mode) == mode
    monkeypatch.chdir("/")
    with pytest.raises(TasksChanged, match="task 1"):  # a relative path now means another directory
        opened(tmp_path / "out", given)
    assert opened(tmp_path / "out", None).total == 2


@pytest.mark.parametrize("ids", [("a", "a"), ("a", "A"), ("2", "")])
def test_ids_that_a_file_system_may_not_tell_apart_are_refused(tmp_path: Path, ids: tuple[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="twice"):
        opened(tmp_path / "out", [Task(id=one, request=request()) for one in ids])
    assert opened(tmp_path / "out", [request()]).total == 1  # what was begun is no obstacle


def test_a_folder_with_other_things_or_no_batch_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(ConfigurationError, match=r"thesis\.tex"):
        opened(tmp_path, [request()])
    with pytest.raises(ConfigurationError, match="no batch"):
        opened(tmp_path / "none", None)
    with pytest.raises(ConfigurationError, match="no task"):
        opened(tmp_path / "empty", [])


@pytest.mark.behaviour("batch:resume")
@pytest.mark.parametrize("name", ["tasks.jsonl", "batch.json"])
def test_tasks_that_were_changed_in_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    opened(tmp_path, [request(prompt="one"), request(prompt="two")])
    path = tmp_path / name
    content = path.read_bytes()
    for damaged in (content[:-9], content + content[-20:], content.replace(b"o", b"0", 1), b""):
        path.write_bytes(damaged)
        with pytest.raises(JournalDamaged):
            opened(tmp_path, None)
    path.write_bytes(content)
    assert opened(tmp_path, None).total == 2


def test_a_batch_that_was_begun_and_killed_before_its_tasks_were_whole_begins_again(tmp_path: Path) -> None:
    opened(tmp_path, [request()])
    (tmp_path / "batch.json").unlink()
    (tmp_path / "tasks.jsonl").write_bytes(b'{"id": "torn')
    assert opened(tmp_path, [request(), request()]).total == 2
