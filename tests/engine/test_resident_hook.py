"""Resident hooks: one real process for many calls, asked at once, and every way in which it can fail."""

import os
import signal
import sys
import textwrap
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from interlock.engine.chain import Chain, ChainVerdict
from interlock.engine.exchange import LONGEST_ANSWER
from interlock.engine.participants import from_program
from interlock.engine.programs import resolve_program
from interlock.engine.resident_hook import ResidentHook
from interlock.engine.scratch import Scratch
from interlock.errors import ConfigurationError
from interlock.hooks import HookCall, HookSpec
from interlock.tools import Subject, ToolKind

pytestmark = pytest.mark.anyio

GUARD = """
import json, os, signal, subprocess, sys, time

def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()

def answer(id, decision="allow", **more):
    say(json.dumps({"id": id, "decision": decision, **more}) + "\\n")

with open(FOLDER + "/starts", "a") as file:
    file.write(f"{os.getpid()}\\n")
held = []
for line in sys.stdin:
    call = json.loads(line)
    id, word = call["id"], call["input"]["command"]
    if word == "hold":
        held.append(id)
        open(FOLDER + f"/held-{id}", "w").close()
    elif word == "release":
        for one in [*reversed(held), id]:
            answer(one, reason=str(one))
        held.clear()
    elif word.startswith("py:"):
        exec(word[3:])
    else:
        answer(id, word, reason="r")
"""


def bash(command: str, **more: Any) -> HookCall:
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


class Bench:
    """A folder for hooks, and chains of one resident hook."""

    def __init__(self, root: Path) -> None:
        self.folder, self.scratch = root / "hooks", root / "scratch"
        self.folder.mkdir()

    def script(self, body: str) -> Path:
        path = self.folder / "guard"
        body = textwrap.dedent(body)
        path.write_text(f"#!{sys.executable}\nFOLDER = {str(self.folder)!r}\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def chain(self, body: str = GUARD, **spec: Any) -> Chain:
        command = (str(self.script(body)),)
        described = HookSpec(name="h", command=command, resident=True, **{"timeout": 20.0, **spec})
        program = resolve_program(command, source="h", folder=None, outside=(), in_workspace=False)
        resident = ResidentHook(program, Scratch(str(self.scratch)), env=described.env, patience=described.timeout)
        return Chain([from_program(described, resident.ask)], residents=[("h", resident)])

    @asynccontextmanager
    async def running(self, body: str = GUARD, **spec: Any) -> AsyncGenerator[Chain]:
        with anyio.fail_after(60):
            async with self.chain(body, **spec).running() as chain:
                yield chain

    def starts(self) -> list[int]:
        return [int(line) for line in (self.folder / "starts").read_text(encoding="utf-8").split()]

    async def until(self, true: Callable[[], bool]) -> None:
        while not true():  # noqa: ASYNC110  # another process does it
            await anyio.sleep(0.005)


async def asked(chain: Chain, command: str, **more: Any) -> ChainVerdict:
    return await chain.before(bash(command, **more), rewrite=lambda one, _: one, forbids=lambda _: None)


async def gather(chain: Chain, *commands: str) -> list[ChainVerdict]:
    verdicts: dict[int, ChainVerdict] = {}

    async def one(number: int, command: str) -> None:
        verdicts[number] = await asked(chain, command)

    async with anyio.create_task_group() as group:
        for number, command in enumerate(commands):
            group.start_soon(one, number, command)
    return [verdicts[number] for number in range(len(commands))]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# ---- One process for many calls -------------------------------------------------------------------------------------


async def test_one_process_answers_all_calls_of_a_run_and_ends_with_it(bench: Bench) -> None:
    async with bench.running() as chain:
        assert not (await asked(chain, "allow")).denied
        denied = await asked(chain, "deny")
        assert denied.denied
        assert denied.reason == "denied by hook 'h': r"
        assert not (await asked(chain, "allow")).denied
        (pid,) = bench.starts()
        assert alive(pid)
    assert not alive(pid)
    assert not list(bench.scratch.iterdir())


async def test_answers_come_in_any_order_and_reach_their_calls(bench: Bench) -> None:
    async with bench.running() as chain:
        async with anyio.create_task_group() as group:
            found: dict[int, str] = {}

            async def hold(number: int) -> None:
                found[number] = (await asked(chain, "hold")).records[0].reason

            for number in range(1, 11):
                group.start_soon(hold, number)
                await bench.until((bench.folder / f"held-{number}").exists)
            await asked(chain, "release")
        assert found == {number: str(number) for number in range(1, 11)}


async def test_what_it_starts_ends_with_the_run(bench: Bench) -> None:
    child = "p = subprocess.Popen(['sleep', '300'], start_new_session=True); answer(id, reason=str(p.pid))"
    async with bench.running() as chain:
        pid = int((await asked(chain, f"py:{child}")).records[0].reason)
        assert alive(pid)
    assert not alive(pid)


async def test_it_knows_that_it_is_resident_and_gets_no_credentials(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    async with bench.running(env={"LEVEL": "3"}) as chain:
        ask = "py:answer(id, reason=' '.join(sorted(os.environ)) + ' ' + os.environ['INTERLOCK_HOOK_RESIDENT'])"
        found = (await asked(chain, ask)).records[0].reason.split()
    assert "LEVEL" in found
    assert found[-1] == "1"
    assert "ANTHROPIC_API_KEY" not in found


async def test_large_questions_and_answers_pass_in_both_directions(bench: Bench) -> None:
    large = "py:answer(id, reason='y' * 3_000_000)#" + "x" * 3_000_000
    async with bench.running() as chain:
        verdicts = await gather(chain, large, "allow", large, "allow")
        assert [verdict.denied for verdict in verdicts] == [False] * 4
        assert len(bench.starts()) == 1


async def test_after_the_call_it_may_replace_the_output(bench: Bench) -> None:
    async with bench.running(events=("post_tool_use",)) as chain:
        call = bash(
            "py:answer(id, 'replace', output=call['output'] + '!')", event="post_tool_use", output="o", is_error=False
        )
        verdict = await chain.after(call)
    assert verdict.call.output == "o!"


# ---- One call is broken ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "say(line)",
        "answer(id, 'ask')",
        "answer(id, None)",
        "answer(id, 'Allow')",
        "answer(id, 'modify')",
        "answer(id, 'modify', input='text')",
        "answer(id, 'replace', output=1)",
        "answer(id, reason=7)",
        "say(json.dumps({'id': id}) + '\\n')",
        "say(json.dumps({'id': id, 'decision': 'deny'}) + '\\n')",
    ],
)
async def test_an_answer_that_is_wrong_breaks_its_call_alone(bench: Bench, code: str) -> None:
    async with bench.running() as chain:
        verdict = await asked(chain, f"py:{code}")
        assert verdict.denied
        assert verdict.records[0].broken
        assert not (await asked(chain, "allow")).denied
        assert len(bench.starts()) == 1


async def test_a_late_call_is_denied_and_its_answer_ignored_while_others_are_answered(bench: Bench) -> None:
    async with bench.running(timeout=1.0) as chain:
        late: list[ChainVerdict] = []

        async def hold() -> None:
            late.append(await asked(chain, "hold"))

        async with anyio.create_task_group() as group:
            group.start_soon(hold)
            while not late:
                assert not (await asked(chain, "allow")).denied
                await anyio.sleep(0.05)
        assert "within 1 s" in late[0].reason
        assert not (await asked(chain, "release")).denied
        assert not (await asked(chain, "allow")).denied
        assert len(bench.starts()) == 1


async def test_a_call_that_is_withdrawn_costs_the_process_nothing(bench: Bench) -> None:
    async with bench.running() as chain:
        async with anyio.create_task_group() as group:
            group.start_soon(asked, chain, "hold")
            await bench.until((bench.folder / "held-1").exists)
            group.cancel_scope.cancel()
        assert not (await asked(chain, "release")).denied
        assert not (await asked(chain, "allow")).denied
        assert len(bench.starts()) == 1


async def test_a_large_call_that_is_withdrawn_half_way_leaves_no_half_line(bench: Bench) -> None:
    slow = "py:open(FOLDER + '/slow', 'w').close(); time.sleep(0.3); answer(id)"
    async with bench.running() as chain, anyio.create_task_group() as group:
        group.start_soon(asked, chain, slow)
        await bench.until((bench.folder / "slow").exists)
        async with anyio.create_task_group() as withdrawn:
            withdrawn.start_soon(asked, chain, "py:answer(id)#" + "x" * 3_000_000)
            withdrawn.start_soon(asked, chain, "py:answer(id)#" + "y" * 3_000_000)
            await anyio.wait_all_tasks_blocked()
            withdrawn.cancel_scope.cancel()
        assert not (await asked(chain, "allow")).denied
        assert len(bench.starts()) == 1


# ---- The process is broken ------------------------------------------------------------------------------------------

FAILURES = {
    "exits 0": "sys.exit(0)",
    "exits 3": "sys.exit(3)",
    "raises": "raise KeyError('x')",
    "is killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "answers and a grandchild lives on": "subprocess.Popen(['sleep', '300']); os._exit(0)",
    "prints noise": "say('hello\\n'); answer(id)",
    "prints a blank line": "say('\\n'); answer(id)",
    "prints a list": "say('[]\\n')",
    "prints no UTF-8": "sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.buffer.flush()",
    "answers without an id": "say(json.dumps({'decision': 'allow'}) + '\\n')",
    "answers an id that is text": "answer(str(id))",
    "answers an id that is no whole number": "answer(float(id))",
    "answers an id that is true": "answer(True)",
    "answers an id of null": "answer(None)",
    "answers an unknown id": "answer(id + 1000)",
    "answers with two ids": 'say(\'{"id":%d,"id":%d,"decision":"allow"}\\n\' % (id + 1, id))',
    "decides twice": 'say(\'{"id":%d,"decision":"deny","decision":"allow"}\\n\' % id)',
    "prints two answers on one line": "say(json.dumps({'id': id, 'decision': 'allow'}) * 2 + '\\n')",
    "prints a line without end": f"say('x' * {LONGEST_ANSWER + 2}); time.sleep(300)",
    "prints a line that is too long": f"answer(id, reason='x' * {LONGEST_ANSWER})",
    "closes its output": "os.close(1); time.sleep(300)",
}


@pytest.mark.parametrize("way", list(FAILURES))
async def test_a_process_that_fails_denies_what_is_open_and_is_replaced_once(bench: Bench, way: str) -> None:
    async with bench.running() as chain:
        verdicts: list[ChainVerdict] = []

        async def hold() -> None:
            verdicts.append(await asked(chain, "hold"))

        async with anyio.create_task_group() as group:
            group.start_soon(hold)
            await bench.until((bench.folder / "held-1").exists)
            verdicts.append(await asked(chain, f"py:{FAILURES[way]}"))
        assert [verdict.denied for verdict in verdicts] == [True, True]
        assert all(verdict.records[0].broken for verdict in verdicts)
        assert not (await asked(chain, "allow")).denied
        first, second = bench.starts()
        assert not alive(first)
        assert (await asked(chain, f"py:{FAILURES[way]}")).denied
        final = await asked(chain, "allow")
        assert final.reason == (
            "hook 'h' could not answer and denies on failure: it failed twice in this run and is not started again"
        )
        assert len(bench.starts()) == 2
        assert not alive(second)


async def test_an_answer_that_comes_twice_breaks_the_process(bench: Bench) -> None:
    async with bench.running() as chain:
        assert not (await asked(chain, "py:answer(id); answer(id)")).denied
        await bench.until(lambda: len(bench.starts()) == 2)
        assert not (await asked(chain, "allow")).denied


async def test_a_process_that_dies_between_calls_is_replaced_before_the_next(bench: Bench) -> None:
    async with bench.running() as chain:
        assert not (await asked(chain, "allow")).denied
        os.kill(bench.starts()[0], signal.SIGKILL)
        await bench.until(lambda: len(bench.starts()) == 2)
        assert not (await asked(chain, "allow")).denied


async def test_killed_in_the_middle_of_ten_calls_it_denies_all_ten(bench: Bench) -> None:
    async with bench.running() as chain:
        verdicts: list[ChainVerdict] = []

        async def hold() -> None:
            verdicts.append(await asked(chain, "hold"))

        async with anyio.create_task_group() as group:
            for number in range(1, 11):
                group.start_soon(hold)
                await bench.until((bench.folder / f"held-{number}").exists)
            os.kill(bench.starts()[0], signal.SIGKILL)
        assert len(verdicts) == 10
        assert all("it was ended by signal 9" in verdict.reason for verdict in verdicts)


async def test_a_process_that_answers_nothing_for_the_time_of_a_call_is_replaced(bench: Bench) -> None:
    async with bench.running(timeout=0.5) as chain:
        assert "within 0.5 s" in (await asked(chain, "py:time.sleep(300)")).reason
        await bench.until(lambda: len(bench.starts()) == 2)
    assert not any(map(alive, bench.starts()))


async def test_a_stopped_process_that_does_not_read_is_replaced(bench: Bench) -> None:
    async with bench.running(timeout=0.7) as chain:
        assert not (await asked(chain, "allow")).denied
        os.kill(bench.starts()[0], signal.SIGSTOP)
        assert (await asked(chain, "#" + "x" * 3_000_000)).denied
        await bench.until(lambda: len(bench.starts()) == 2)


async def test_its_last_words_are_in_the_audit_and_not_in_the_reason(bench: Bench) -> None:
    async with bench.running() as chain:
        verdict = await asked(chain, "py:print('last words', file=sys.stderr); sys.exit(1)")
    assert "exited with code 1" in verdict.reason
    assert "last words" not in verdict.reason
    assert "last words" in verdict.records[0].reason


async def test_complaints_without_end_do_not_block_it(bench: Bench) -> None:
    async with bench.running() as chain:
        assert not (await asked(chain, "py:sys.stderr.write('x' * 5_000_000); answer(id)")).denied


async def test_on_failure_allow_lets_pass_but_not_what_meant_to_deny(bench: Bench) -> None:
    async with bench.running(on_failure="allow") as chain:
        assert not (await asked(chain, "py:sys.exit(1)")).denied
        assert (await asked(chain, "py:answer(id + 5, 'deny', reason='no')")).denied
        assert not (await asked(chain, "allow")).denied


async def test_a_program_that_changed_is_not_started_again(bench: Bench) -> None:
    async with bench.running() as chain:
        with bench.script(GUARD).open("a", encoding="utf-8") as file:
            file.write("# changed\n")
        assert (await asked(chain, "py:sys.exit(0)")).denied
        verdict = await asked(chain, "allow")
        assert "not the one of the start" in verdict.reason
        assert len(bench.starts()) == 1


async def test_a_program_for_one_call_is_no_resident(bench: Bench) -> None:
    async with bench.running('import sys; sys.stdin.read(); print(\'{"decision":"allow"}\')', timeout=0.5) as chain:
        assert (await asked(chain, "allow")).denied


# ---- Beginning and end ----------------------------------------------------------------------------------------------


async def test_a_program_that_cannot_be_started_is_an_error_at_the_start(bench: Bench) -> None:
    chain = bench.chain()
    (bench.folder / "guard").unlink()
    with anyio.fail_after(20), pytest.raises(ConfigurationError, match="h: its program is not the one of the start"):
        await chain.start()
    assert not list(bench.scratch.iterdir())


async def test_before_the_start_and_after_the_end_it_denies(bench: Bench) -> None:
    chain = bench.chain()
    with anyio.fail_after(20):
        assert (await asked(chain, "allow")).reason.endswith("it was not started with the run")
        async with chain.running():
            assert not (await asked(chain, "allow")).denied
        assert (await asked(chain, "allow")).reason.endswith("the run is over")


async def test_what_is_open_at_the_end_is_denied(bench: Bench) -> None:
    verdicts: list[ChainVerdict] = []
    chain = bench.chain()

    async def hold() -> None:
        verdicts.append(await asked(chain, "hold"))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group, chain.running():
            group.start_soon(hold)
            await bench.until((bench.folder / "held-1").exists)
    assert verdicts[0].denied
    assert verdicts[0].reason.endswith("the run is over")


async def test_cancelling_the_run_leaves_no_process(bench: Bench) -> None:
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:

            async def run() -> None:
                async with bench.chain().running() as chain:
                    await asked(chain, "hold")

            group.start_soon(run)
            await bench.until((bench.folder / "held-1").exists)
            group.cancel_scope.cancel()
    assert not any(map(alive, bench.starts()))
    assert not list(bench.scratch.iterdir())


async def test_an_end_in_the_middle_of_a_replacement_leaves_no_process(bench: Bench) -> None:
    for _ in range(5):
        async with bench.running() as chain:
            await asked(chain, "allow")
            assert (await asked(chain, "py:os._exit(1)")).denied
        assert not any(map(alive, bench.starts()))


def test_a_chain_with_residents_can_be_made_without_a_loop(bench: Bench) -> None:
    assert bench.chain().names == ("hook 'h'",)
