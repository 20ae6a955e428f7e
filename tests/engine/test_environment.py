"""An agent gets what it needs of the environment, and nothing that turns guards off or loads other code."""

import os
import subprocess
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Literal

import pytest

from interlock.engine.environment import child_environment, refused_variables

HOST = {"PATH": "/usr/bin:/bin", "HOME": "/home/me", "LANG": "C.UTF-8", "LC_TIME": "C", "MY_OWN": "1", "KEY": "k"}


def child(
    host: Mapping[str, str] = HOST,
    request_env: Mapping[str, str] | None = None,
    policy: Literal["minimal", "inherit"] = "minimal",
    key_variables: Iterable[str] = (),
    set_: Mapping[str, str] | None = None,
    drop: Collection[str] = (),
) -> dict[str, str]:
    return child_environment(
        host=host,
        request_env=request_env or {},
        policy=policy,
        key_variables=key_variables,
        set_=set_ or {},
        drop=drop,
    )


NEVER = (
    *("COPILOT_ALLOW_ALL", "OPENCODE_PERMISSION", "GEMINI_CLI_TRUST_WORKSPACE", "IS_SANDBOX", "GOOSE_MODE"),
    *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SIMPLE", "CODEX_SANDBOX"),
    *("CODEX_SANDBOX_NETWORK_DISABLED", "GEMINI_CLI", "QWEN_CODE", "OPENCODE", "INTERLOCK_RUN"),
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_GLOBAL", "GIT_EXTERNAL_DIFF"),
    *("GIT_SSH_COMMAND", "GIT_SSH", "GIT_PAGER", "GIT_EDITOR", "GIT_EXEC_PATH", "GIT_ASKPASS", "GIT_TEMPLATE_DIR"),
    *("GIT_INDEX_FILE", "GIT_ALLOW_PROTOCOL", "GIT_PROXY_COMMAND", "GIT_CONFIG_PARAMETERS", "GIT_TEST_FSMONITOR"),
    *("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "BASH_ENV", "ENV", "PYTHONSTARTUP"),
    *("BASH_FUNC_git%%", "SHELLOPTS", "CLAUDE_ENV_FILE"),
)


@pytest.mark.parametrize("name", NEVER)
@pytest.mark.parametrize("policy", ["minimal", "inherit"])
def test_a_marker_or_switch_reaches_no_agent(name: str, policy: Literal["minimal", "inherit"]) -> None:
    env = child(HOST | {name: "true"}, {name: "true"}, policy, key_variables=[name])
    assert name not in env
    assert env["PATH"] == HOST["PATH"]
    assert refused_variables({name: "true", "FINE": "1"}, ()) == (name,)


@pytest.mark.parametrize("name", ["CLAUDE_CODE_ENTRYPOINT", "INTERLOCK_RUN", "NODE_OPTIONS", "PATH"])
def test_what_the_adapter_sets_always_arrives(name: str) -> None:
    assert child(HOST | {name: "host"}, {name: "asked"}, set_={name: "ours"}, drop={"*"})[name] == "ours"


def test_minimal_passes_what_programs_need_and_the_keys_of_the_agent() -> None:
    assert child(key_variables=["KEY", "ABSENT"]) == {name: HOST[name] for name in HOST if name != "MY_OWN"}


@pytest.mark.parametrize(
    "name", ["HTTPS_PROXY", "https_proxy", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "TZ"]
)
def test_minimal_passes_the_way_to_the_service(name: str) -> None:
    assert child(HOST | {name: "x"})[name] == "x"


@pytest.mark.parametrize("name", ["SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "XDG_CONFIG_HOME", "LCX"])
def test_minimal_keeps_other_credentials_and_settings_from_the_agent(name: str) -> None:
    assert name not in child(HOST | {name: "x"})
    assert child(HOST | {name: "x"}, policy="inherit")[name] == "x"


@pytest.mark.parametrize("name", ["CLAUDE_CODE_OAUTH_TOKEN", "CODEX_API_KEY", "COPILOT_GITHUB_TOKEN", "GEMINI_API_KEY"])
def test_a_key_beside_the_markers_is_not_lost(name: str) -> None:
    assert child(HOST | {name: "x"}, policy="inherit")[name] == "x"
    assert child(request_env={name: "x"})[name] == "x"
    assert refused_variables({name: "x"}, ()) == ()


@pytest.mark.parametrize("name", ["GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL", "GIT_TERMINAL_PROMPT", "GITHUB_TOKEN"])
def test_a_variable_of_git_that_runs_nothing_may_be_asked_for(name: str) -> None:
    assert child(request_env={name: "x"})[name] == "x"
    assert refused_variables({name: "x"}, ()) == ()


def test_the_request_wins_over_the_host_and_the_adapter_over_both() -> None:
    host = HOST | {"A": "host", "B": "host", "C": "host"}
    env = child(host, {"B": "asked", "C": "asked"}, "inherit", set_={"C": "ours"})
    assert (env["A"], env["B"], env["C"]) == ("host", "asked", "ours")


def test_what_the_adapter_drops_is_missing_whoever_set_it() -> None:
    env = child(HOST | {"KEY": "stray", "X_1": "a"}, {"X_2": "b"}, "inherit", ["KEY"], {"X_3": "c"}, {"KEY", "X_*"})
    assert not {"KEY", "X_1", "X_2"} & env.keys()
    assert env["X_3"] == "c"
    assert refused_variables({"X_2": "b", "KEY": "k", "Y": "y"}, {"KEY", "X_*"}) == ("KEY", "X_2")


@pytest.mark.parametrize("policy", ["minimal", "inherit"])
def test_path_and_home_stay_whatever_is_dropped(policy: Literal["minimal", "inherit"]) -> None:
    env = child(policy=policy, drop={"PATH", "HOME", "*"}, request_env={"ONLY": "this"})
    assert env == {"PATH": HOST["PATH"], "HOME": HOST["HOME"]}


def test_without_a_path_the_agent_gets_the_one_of_the_system() -> None:
    assert child({})["PATH"] == child({"PATH": ""})["PATH"] == child({"PATH": ".:"})["PATH"] == os.defpath


def test_the_workspace_is_not_searched_for_programs() -> None:
    assert child(HOST | {"PATH": ".:/usr/bin::node_modules/.bin:/bin:"})["PATH"] == "/usr/bin:/bin"
    assert refused_variables({"PATH": "bin:/usr/bin"}, ()) == ("PATH",)
    assert refused_variables({"PATH": "/opt/bin:/usr/bin"}, ()) == ()


def test_nothing_that_was_given_is_changed() -> None:
    host, asked, ours = dict(HOST), {"A": "1"}, {"B": "2"}
    child(host, asked, "inherit", set_=ours, drop={"KEY"})
    assert (host, asked, ours) == (HOST, {"A": "1"}, {"B": "2"})


HOSTILE = {
    "git": (
        ["git", "status"],
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "EVIL"},
    ),
    "git diff": (["git", "diff"], {"GIT_EXTERNAL_DIFF": "EVIL"}),
    "bash": (["bash", "-c", "true"], {"BASH_ENV": "EVIL"}),
    "a function": (["bash", "-c", "ls"], {"BASH_FUNC_ls%%": "() { sh EVIL; }"}),
    "a search path": (["evil.sh"], {"PATH": f".:{os.environ['PATH']}"}),
}


@pytest.mark.parametrize(("command", "hostile"), HOSTILE.values(), ids=HOSTILE)
def test_a_real_program_runs_no_code_of_a_hostile_environment(
    tmp_path: Path, command: list[str], hostile: dict[str, str]
) -> None:
    """With the hostile environment as it is the same command does."""
    marker, evil = tmp_path / "marker", tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\n: > {marker}\n", encoding="utf-8")
    evil.chmod(0o755)
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    evil.write_text(f"#!/bin/sh\n\n: > {marker}\n", encoding="utf-8")
    planted = {name: value.replace("EVIL", str(evil)) for name, value in hostile.items()}
    host = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)} | planted
    for env, runs in ((host, True), (child(host, policy="inherit"), False)):
        subprocess.run(["/usr/bin/env", *command], cwd=tmp_path, env=env, check=False, capture_output=True)
        assert marker.exists() is runs
        marker.unlink(missing_ok=True)
