"""Hooks that are programs: real ones, in every way in which they fail, and what they are given to run with."""

import gc
import json
import os
import stat
import sys
import textwrap
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.chain import Chain, ChainVerdict
from interlock.engine.participants import BrokenAnswer, from_program
from interlock.engine.programs import Program, resolve_program
from interlock.engine.scratch import Scratch
from interlock.engine.subprocess_hook import LONGEST_ANSWER, SubprocessHook, read_answer
from interlock.errors import ConfigurationError
from interlock.hooks import Allow, DenyCall, HookCall, HookSpec, Modify, Replace
from interlock.tools import Subject, ToolKind

pytestmark = pytest.mark.anyio

ALLOW = '{"decision":"allow"}'


def bash(command: str = "ls", **more: Any) -> HookCall:
    fields: dict[str, Any] = {
        "event": "pre_tool_use",
        "workspace": "/ws",
        "agent_id": "main",
        "tool_call_id": "t1",
        "tool_name": "Bash",
        "input": {"command": command},
        "agent": "claude",
        "run_id": "r1",
        "cwd": "/ws",
        "tool_kind": ToolKind.SHELL,
        "subject": Subject(command=command),
        **more,
    }
    return HookCall.model_validate(fields)


def resolved(*command: str, workspace: Path, folder: Path | None = None, in_workspace: bool = False) -> Program:
    return resolve_program(
        command,
        source="hooks.json: hook 'h'",
        folder=str(folder) if folder else None,
        outside=[str(workspace)],
        in_workspace=in_workspace,
    )


class Bench:
    """A place with a workspace, a folder for hooks and a scratch folder."""

    def __init__(self, root: Path) -> None:
        self.workspace, self.hooks, self.scratch = root / "ws", root / "hooks", root / "scratch"
        self.folders = Scratch(str(self.scratch))
        self.workspace.mkdir()
        self.hooks.mkdir()

    def script(self, body: str, name: str = "guard") -> Path:
        path = self.hooks / name
        path.write_text(body, encoding="utf-8")
        path.chmod(0o755)
        return path

    def shell(self, body: str) -> Path:
        return self.script(f"#!/bin/sh\n{body}\n")

    def python(self, body: str) -> Path:
        return self.script(f"#!{sys.executable}\n{textwrap.dedent(body)}\n")

    def hook(self, *command: str | Path, **env: str) -> SubprocessHook:
        program = resolved(*map(str, command), workspace=self.workspace, folder=self.hooks)
        return SubprocessHook(program, self.folders, env)

    async def verdict(self, *command: str | Path, call: HookCall | None = None, **spec: Any) -> ChainVerdict:
        described = HookSpec(name="h", command=tuple(map(str, command)), **{"timeout": 20.0, **spec})
        chain = Chain([from_program(described, self.hook(*command).ask)])
        with anyio.fail_after(30):
            return await chain.before(call or bash(), rewrite=lambda one, _: one, forbids=lambda _: None)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# ---- Answers --------------------------------------------------------------------------------------------------------


async def test_the_call_is_on_stdin_and_the_answer_on_stdout(bench: Bench) -> None:
    path = bench.python("""
        import json, sys
        call = json.load(sys.stdin)
        assert "output" not in call and "is_error" not in call and call["hook_schema"] == 1
        print(json.dumps({"decision": "modify", "input": {"command": call["input"]["command"] + " -l"}, "x": 1}))
    """)
    with anyio.fail_after(20):
        assert await bench.hook(path).ask(bash()) == Modify(input={"command": "ls -l"})


async def test_after_the_call_the_output_is_there_as_it_is(bench: Bench) -> None:
    path = bench.python("""
        import json, sys
        call = json.load(sys.stdin)
        print(json.dumps({"decision": "replace", "output": [call["output"], call["is_error"]]}))
    """)
    call = bash(event="post_tool_use", output='{"a": 1}', is_error=False)
    with anyio.fail_after(20):
        assert await bench.hook(path).ask(call) == Replace(output=['{"a": 1}', False])


BREAKS = {
    "exits 1": "exit 1",
    "exits 2": "exit 2",
    "exits 2 after allowing": f"echo '{ALLOW}'; exit 2",
    "exits 3 after denying": 'echo \'{"decision":"deny","reason":"x"}\'; exit 3',
    "exits 127": "exit 127",
    "dies by a signal": f"echo '{ALLOW}'; kill -9 $$",
    "prints nothing": "exit 0",
    "prints blanks": "echo; echo ' '",
    "answers on stderr": f"echo '{ALLOW}' >&2",
    "prints a banner first": f"echo Welcome; echo '{ALLOW}'",
    "prints something after": f"echo '{ALLOW}'; echo done",
    "answers twice": f"echo '{ALLOW}'; echo '{ALLOW}'",
    "answers in a list": f"echo '[{ALLOW}]'",
    "answers text": "echo '\"allow\"'",
    "answers null": "echo null",
    "cuts its answer short": 'printf \'{"decision":"all\'',
    "echoes its input": "cat",
    "has no decision": "echo '{}'",
    "has a decision of null": "echo '{\"decision\":null}'",
    "has an unknown decision": 'echo \'{"decision":"ask"}\'',
    "has the wrong case": 'echo \'{"decision":"Allow"}\'',
    "speaks another dialect": 'echo \'{"permissionDecision":"allow"}\'',
    "decides twice": 'echo \'{"decision":"deny","reason":"x","decision":"allow"}\'',
    "repeats a nested key": 'echo \'{"decision":"modify","input":{"a":1,"a":2}}\'',
    "denies without a reason": 'echo \'{"decision":"deny"}\'',
    "denies with a number": 'echo \'{"decision":"deny","reason":1}\'',
    "allows with a wrong reason": 'echo \'{"decision":"allow","reason":[]}\'',
    "modifies without an input": 'echo \'{"decision":"modify"}\'',
    "modifies with text": 'echo \'{"decision":"modify","input":"ls"}\'',
    "modifies with null": 'echo \'{"decision":"modify","input":null}\'',
    "modifies with NaN": 'echo \'{"decision":"modify","input":{"a":NaN}}\'',
    "modifies with too large a number": 'echo \'{"decision":"modify","input":{"a":1e999}}\'',
    "replaces before the call": 'echo \'{"decision":"replace","output":"x"}\'',
    "prints no UTF-8": f"printf '\\377'; echo '{ALLOW}'",
    "prints a byte order mark": f"printf '\\357\\273\\277'; echo '{ALLOW}'",
    "nests too deep": "printf '%0.s[' $(seq 100000)",
}


@pytest.mark.parametrize("way", list(BREAKS))
async def test_a_broken_hook_denies(bench: Bench, way: str) -> None:
    verdict = await bench.verdict(bench.shell(BREAKS[way]))
    assert verdict.denied, way
    assert verdict.reason.startswith("hook 'h' could not answer and denies on failure: "), verdict.reason
    assert verdict.records[0].broken


async def test_a_hook_that_hangs_is_ended_with_all_that_it_started(bench: Bench) -> None:
    path = bench.shell(f"sleep 300 & echo $! > {bench.hooks}/child; echo $$ > {bench.hooks}/own; wait")
    verdict = await bench.verdict(path, timeout=0.5)
    assert verdict.denied
    assert "within 0.5 s" in verdict.reason
    for name in ("child", "own"):
        await _is_gone(int((bench.hooks / name).read_text()))
    assert not list(bench.scratch.iterdir())


async def _is_gone(pid: int) -> None:
    with anyio.fail_after(5):
        while _alive(pid):  # noqa: ASYNC110  # another process' end cannot be awaited
            await anyio.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def test_an_answer_counts_although_a_grandchild_holds_the_output(
    bench: Bench,
) -> None:
    path = bench.shell(f"setsid sleep 300 & echo $! > {bench.hooks}/child; echo '{ALLOW}'")
    assert not (await bench.verdict(path)).denied
    await _is_gone(int((bench.hooks / "child").read_text()))


async def test_a_hook_that_prints_without_end_is_broken_at_once(bench: Bench) -> None:
    verdict = await bench.verdict(bench.shell("exec cat /dev/zero"), timeout=25)
    assert f"more than {LONGEST_ANSWER} bytes" in verdict.reason


async def test_a_hook_that_complains_without_end_is_read_and_its_last_words_are_kept(bench: Bench) -> None:
    path = bench.shell("yes complaint | head -c 3000000 >&2; echo last words >&2; exit 1")
    verdict = await bench.verdict(path)
    assert "last words" not in verdict.reason
    assert "exited with code 1" in verdict.reason
    assert verdict.records[0].reason.rstrip(")").endswith("last words")
    assert len(verdict.records[0].reason) < 2300


async def test_a_hook_need_not_read_what_it_is_given(bench: Bench) -> None:
    call = bash(input={"command": "x" * 8_000_000})
    assert not (await bench.verdict(bench.shell(f"echo '{ALLOW}'"), call=call)).denied
    assert not (await bench.verdict(bench.shell(f"exec <&-; echo '{ALLOW}'"), call=call)).denied


async def test_large_questions_and_answers_pass_at_once(bench: Bench) -> None:
    path = bench.python("""
        import sys
        print('{"decision":"allow","reason":"' + "y" * 3_000_000 + '"}', flush=True)
        sys.stdin.read()
    """)
    assert not (await bench.verdict(path, call=bash(input={"command": "x" * 3_000_000}))).denied


async def test_a_hook_that_cannot_be_started_denies(bench: Bench) -> None:
    path = bench.shell(f"echo '{ALLOW}'")
    hook = bench.hook(path)
    chain = Chain([from_program(HookSpec(name="h", command=("x",)), hook.ask)])
    path.chmod(0o644)
    if os.geteuid() == 0:
        path.unlink()
    verdict = await chain.before(bash(), rewrite=lambda one, _: one, forbids=lambda _: None)
    assert verdict.denied
    assert verdict.records[0].broken


async def test_a_hook_whose_folder_cannot_be_made_denies(bench: Bench) -> None:
    bench.scratch.write_text("in the way", encoding="utf-8")
    verdict = await bench.verdict(bench.shell(f"echo '{ALLOW}'"))
    assert verdict.reason.endswith("its private folder cannot be made")


async def test_cancelling_leaves_no_process_and_no_folder(bench: Bench) -> None:
    path = bench.shell(f"echo $$ > {bench.hooks}/own.tmp; mv {bench.hooks}/own.tmp {bench.hooks}/own; exec sleep 300")
    own = bench.hooks / "own"
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(bench.hook(path).ask, bash())
            while not own.exists():  # noqa: ASYNC110  # another process makes it
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
    await _is_gone(int(own.read_text()))
    assert not list(bench.scratch.iterdir())


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"decision":"allow"}', Allow()),
        (' \n{"decision":"allow","reason":"r","other":[1]}\r\n ', Allow(reason="r")),
        ('{"decision":"deny","reason":"no"}', DenyCall(reason="no")),
        ('{"decision":"modify","input":{"a":1}}', Modify(input={"a": 1})),
        ('{"decision":"replace","output":null}', Replace(output=None)),
        ('{"decision":"replace","output":1,"is_error":null}', Replace(output=1)),
        ('{"decision":"replace","output":1,"is_error":false}', Replace(output=1, is_error=False)),
    ],
)
def test_well_formed_answers_are_read(text: str, answer: object) -> None:
    assert read_answer(text.encode()) == answer


@pytest.mark.parametrize(
    "text", ['{"decision":"replace"}', '{"decision":"replace","output":1,"is_error":"no"}', '{"decision":true}']
)
def test_answers_with_a_wrong_field_are_broken(text: str) -> None:
    with pytest.raises(BrokenAnswer):
        read_answer(text.encode())


@given(data=st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_no_output_makes_reading_fail_in_another_way(data: bytes) -> None:
    with pytest.raises(BrokenAnswer):
        read_answer(data)


def test_a_malformed_deny_is_known_to_have_meant_no() -> None:
    with pytest.raises(BrokenAnswer) as caught:
        read_answer(b'{"decision":"deny"}')
    assert caught.value.denies


# ---- What a hook runs with ------------------------------------------------------------------------------------------


async def test_the_environment_holds_no_credentials(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("PYTHONPATH", "/evil")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.delenv("LC_ALL", raising=False)
    path = bench.shell(f"env > {bench.hooks}/env; echo '{ALLOW}'")
    with anyio.fail_after(20):
        await bench.hook(path, GUARD_LEVEL="3").ask(bash())
    lines = (bench.hooks / "env").read_text(encoding="utf-8").splitlines()
    found = dict(line.split("=", 1) for line in lines)
    private = found.pop("HOME")
    for name in ("PWD", "OLDPWD", "SHLVL", "_", "INTERLOCK_RUN"):
        found.pop(name, None)
    assert found == {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "LANG": "de_DE.UTF-8",
        "TMPDIR": private,
        "PYTHONSAFEPATH": "1",
        "GUARD_LEVEL": "3",
    }


async def test_the_working_directory_is_empty_private_and_gone_afterwards(bench: Bench) -> None:
    notes = f"pwd > {bench.hooks}/pwd; ls -A > {bench.hooks}/ls; ls -ld . > {bench.hooks}/mode; echo x > x"
    path = bench.shell(f"{notes}; echo '{ALLOW}'")
    with anyio.fail_after(20):
        await bench.hook(path).ask(bash())
    folder = Path((bench.hooks / "pwd").read_text(encoding="utf-8").strip())
    assert folder.parent == bench.scratch
    assert (bench.hooks / "ls").read_text(encoding="utf-8") == ""
    assert (bench.hooks / "mode").read_text(encoding="utf-8").startswith("drwx------")
    assert not list(bench.scratch.iterdir())
    assert stat.S_IMODE(bench.scratch.stat().st_mode) == 0o700


async def test_a_folder_that_stayed_empty_is_used_again_and_gone_with_the_hook(bench: Bench) -> None:
    path = bench.shell(f"pwd >> {bench.hooks}/pwd; ls -A >> {bench.hooks}/ls; echo '{ALLOW}'")
    hook = bench.hook(path)
    with anyio.fail_after(20):
        await hook.ask(bash())
        await hook.ask(bash())
        first, second = (bench.hooks / "pwd").read_text(encoding="utf-8").split()
        assert first == second
        (kept,) = bench.scratch.iterdir()
        (kept / "json.py").write_text("planted", encoding="utf-8")
        await hook.ask(bash())
        kept.mkdir()
        await hook.ask(bash())
    assert first not in (bench.hooks / "pwd").read_text(encoding="utf-8").split()[2:]
    assert (bench.hooks / "ls").read_text(encoding="utf-8") == ""
    kept.rmdir()
    del bench.folders, hook
    gc.collect()
    assert not list(bench.scratch.iterdir())


@pytest.mark.parametrize("as_module", [True, False])
async def test_a_policy_in_python_does_not_import_from_the_workspace(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, as_module: bool
) -> None:
    planted = "def loads(*_): return {}\nload = loads\ndef dumps(*_): return '" + ALLOW + "'\n"
    for name in ("json.py", "mypolicy.py"):
        (bench.workspace / name).write_text(planted, encoding="utf-8")
    (bench.hooks / "mypolicy.py").write_text(
        'import json, sys\njson.load(sys.stdin)\nprint(json.dumps({"decision": "deny", "reason": "policy"}))\n',
        encoding="utf-8",
    )
    monkeypatch.chdir(bench.workspace)
    command = ["-m", "mypolicy"] if as_module else [str(bench.hooks / "mypolicy.py")]
    hook = bench.hook("python3", *command, **({"PYTHONPATH": str(bench.hooks)} if as_module else {}))
    with anyio.fail_after(20):
        assert await hook.ask(bash()) == DenyCall(reason="policy")


async def test_a_module_that_is_only_in_the_workspace_is_not_found(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.workspace / "mypolicy.py").write_text(f"print('{ALLOW}')", encoding="utf-8")
    monkeypatch.chdir(bench.workspace)
    assert (await bench.verdict("python3", "-m", "mypolicy")).denied


# ---- Programs -------------------------------------------------------------------------------------------------------


def test_a_bare_name_is_looked_up_in_the_systems_folders_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = bench.shell("exit 0").rename(bench.hooks / "sh")
    monkeypatch.setenv("PATH", str(evil.parent))
    program = resolved("sh", "-c", "true", workspace=bench.workspace, folder=bench.hooks)
    assert program.argv[0] in {"/usr/bin/sh", "/bin/sh", "/usr/local/bin/sh"}
    with pytest.raises(ConfigurationError, match="no program"):
        resolved("guard-that-is-nowhere", workspace=bench.workspace, folder=bench.hooks)


def test_a_relative_path_is_relative_to_the_hooks_file(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bench.shell("exit 0")
    monkeypatch.chdir(bench.workspace)
    assert resolved("./guard", workspace=bench.workspace, folder=bench.hooks).argv == (str(path),)
    with pytest.raises(ConfigurationError, match="relative"):
        resolved("./guard", workspace=bench.workspace)


def test_a_script_beside_the_hooks_file_is_named_absolutely_and_digested(bench: Bench) -> None:
    script = bench.script("print(1)", "policy.py")
    program = resolved("python3", "policy.py", "--strict", workspace=bench.workspace, folder=bench.hooks)
    assert program.argv[1:] == (str(script), "--strict")
    assert str(script) in [file.path for file in program.files]


@pytest.mark.parametrize(
    "command",
    [("/nowhere/guard",), ("./nowhere",), ("python3", "/nowhere/policy.py"), ("python3", "policy.py"), ("sh\0",)],
)
def test_a_program_or_script_that_is_not_there_is_an_error_at_the_start(bench: Bench, command: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match="hook 'h'"):
        resolved(*command, workspace=bench.workspace, folder=bench.hooks)


def test_a_file_that_cannot_be_executed_is_an_error_at_the_start(bench: Bench) -> None:
    path = bench.shell("exit 0")
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="no program that can be started"):
        resolved(str(path), workspace=bench.workspace)
    with pytest.raises(ConfigurationError, match="no program that can be started"):
        resolved(str(bench.hooks), workspace=bench.workspace)


def test_a_script_whose_interpreter_is_missing_is_an_error_at_the_start(bench: Bench) -> None:
    path = bench.script("#!/nowhere/python\n")
    with pytest.raises(ConfigurationError, match="/nowhere/python"):
        resolved(str(path), workspace=bench.workspace)


def _inside(bench: Bench, how: str) -> tuple[str, ...]:
    inside = bench.workspace / "guard.py"
    inside.write_text("#!/bin/sh\n", encoding="utf-8")
    inside.chmod(0o755)
    link = bench.hooks / "link"
    if how == "program":
        return (str(inside),)
    if how == "link into the workspace":
        link.symlink_to(inside)
        return (str(link),)
    if how == "link from the workspace":
        (bench.workspace / "sh").symlink_to("/bin/sh")
        return (str(bench.workspace / "sh"), "-c", "true")
    if how == "script":
        return ("python3", str(inside))
    if how == "script by a link":
        link.symlink_to(inside)
        return ("python3", "link")
    path = bench.script(f"#!{inside}\n", "other")
    return (str(path),)


WAYS_INSIDE = [
    "program",
    "link into the workspace",
    "link from the workspace",
    "script",
    "script by a link",
    "interpreter",
]


@pytest.mark.parametrize("how", WAYS_INSIDE)
def test_a_program_inside_the_workspace_is_refused_unless_it_is_meant_to_lie_there(bench: Bench, how: str) -> None:
    command = _inside(bench, how)
    with pytest.raises(ConfigurationError, match="inside the workspace"):
        resolved(*command, workspace=bench.workspace, folder=bench.hooks)
    assert resolved(*command, workspace=bench.workspace, folder=bench.hooks, in_workspace=True).files


def test_a_workspace_behind_a_link_is_the_same_workspace(bench: Bench) -> None:
    alias = bench.hooks / "alias"
    alias.symlink_to(bench.workspace)
    (bench.workspace / "guard.py").write_text("", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="inside the workspace"):
        resolved("python3", str(bench.workspace / "guard.py"), workspace=alias)


async def test_a_program_that_changed_since_the_start_denies(bench: Bench) -> None:
    path = bench.shell('echo \'{"decision":"deny","reason":"x"}\'')
    hook = bench.hook(path)
    path.write_text(f"#!/bin/sh\necho '{ALLOW}'\n", encoding="utf-8")
    with pytest.raises(BrokenAnswer) as caught:
        await hook.ask(bash())
    assert "changed" in caught.value.detail


async def test_a_script_or_a_link_that_changed_denies_and_a_touched_one_does_not(bench: Bench) -> None:
    script = bench.script(f"print('{ALLOW}')", "policy.py")
    hook = bench.hook("python3", "policy.py")
    os.utime(script, (1, 1))
    with anyio.fail_after(20):
        assert await hook.ask(bash()) == Allow()
    other = bench.script("print(1)", "other.py")
    script.unlink()
    script.symlink_to(other)
    with pytest.raises(BrokenAnswer):
        await hook.ask(bash())


def test_the_digest_of_a_program_is_that_of_its_command_and_files(bench: Bench) -> None:
    path = bench.shell("exit 0")
    first = resolved(str(path), workspace=bench.workspace).digest
    assert first == resolved(str(path), workspace=bench.workspace).digest
    assert first != resolved(str(path), "-x", workspace=bench.workspace).digest
    bench.shell("exit 1")
    assert first != resolved(str(path), workspace=bench.workspace).digest


def test_the_wire_names_every_field_of_the_call() -> None:
    wire = json.loads(bash().wire())
    assert set(wire) == set(HookCall.model_fields) - {"output", "is_error"}
