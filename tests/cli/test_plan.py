"""`interlock plan` says what would run and starts nothing."""

import json
from pathlib import Path
from typing import Any

SCRIPT = [{"text": "never"}]


def test_a_plan_for_people_names_what_is_in_force_and_hides_the_prompt(cli: Any) -> None:
    done = cli.interlock(*cli.arguments(SCRIPT, "--posture", "edit", "a private prompt", command="plan"))
    assert done.returncode == 0
    text = done.stdout.decode()
    for word in ("stream-json", "posture edit, otherwise deny", "backstop", "confined", str(cli.folder / "claude")):
        assert word in text
    assert "private" not in text
    assert "opens-nothing" not in text
    assert done.stderr == b""


def test_a_plan_as_json_is_one_object(cli: Any) -> None:
    done = cli.interlock(*cli.arguments(SCRIPT, "--otherwise", "deny", "--json", "x", command="plan"))
    assert done.returncode == 0
    plan = json.loads(done.stdout)
    assert (plan["agent"], plan["posture"], plan["otherwise"]) == ("claude", "read", "deny")


def test_a_plan_needs_no_prompt(cli: Any) -> None:
    assert cli.interlock(*cli.arguments(SCRIPT, command="plan")).returncode == 0


def test_a_plan_starts_nothing(cli: Any, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n", encoding="utf-8")
    program.chmod(0o755)
    arguments = cli.arguments(SCRIPT, "--approve-with", "/bin/true", "x", command="plan")
    done = cli.interlock(*(str(program) if "agent/claude" in word else word for word in arguments))
    assert done.returncode == 0
    assert not mark.exists()
    assert not list(cli.workspace.iterdir())
    assert not list((tmp_path / "home").rglob("*"))


def test_a_name_with_escape_sequences_reaches_no_terminal(cli: Any) -> None:
    done = cli.interlock(*cli.arguments(SCRIPT, "--session-id", "\x1b[31m", "x", command="plan"))
    assert b"\x1b" not in done.stdout + done.stderr
