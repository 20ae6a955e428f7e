"""A program that asks the person at its terminal what it is given, and writes down what they decide.

`python person.py PLAN.json ANSWERS.jsonl`: PLAN is a list of `{"approval": ...}`, `{"question": ...}`,
`{"resolved": ...}`, `{"text": ...}` (what the agent says), `{"wait": N}` (until N answers are there), `{"meet": FIFO}`
(until the test has written to it) and `{"tell": FIFO}` (until the test has read from it).
"""

import json
import sys
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from interlock.approval import Answer, Approval, Approve, Deny, Question
from interlock.errors import NotOpen
from interlock.events import ApprovalResolved
from interlock_adapters.cli.show import Screen
from interlock_adapters.cli.terminal import Terminal


class Written:
    """Takes the answers of a run that is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self.news = anyio.Event()

    def _write(self, item: str, decision: Approve | Deny | Answer) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([item, decision.model_dump(mode="json")]) + "\n")
        self.count += 1
        self.news.set()
        self.news = anyio.Event()

    def respond(self, approval_id: str, decision: Approve | Deny) -> None:
        if approval_id == "late":
            self._write(approval_id, decision)
            raise NotOpen(approval_id, "it expired")
        self._write(approval_id, decision)

    def answer(self, question_id: str, answer: Answer) -> None:
        self._write(question_id, answer)


async def play(steps: list[dict[str, object]], written: Written) -> None:
    screen = Screen()
    terminal = Terminal(screen)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(terminal.serve, written)
        for step in steps:
            match step:
                case {"approval": value}:
                    terminal.submit(Approval.model_validate(value))
                case {"question": value}:
                    terminal.submit(Question.model_validate(value))
                case {"text": str(text)}:
                    await screen.answer(text)
                case {"resolved": value}:
                    terminal.resolved(ApprovalResolved.model_validate(value))
                case {"meet": str(fifo)}:
                    await anyio.to_thread.run_sync(Path(fifo).read_bytes)
                case {"tell": str(fifo)}:
                    await anyio.to_thread.run_sync(Path(fifo).write_bytes, b"x")
                case {"wait": int(count)}:
                    while written.count < count:
                        await written.news.wait()
                case _:
                    raise ValueError(step)
        tasks.cancel_scope.cancel()
    await screen.note(f"END quit={terminal.quit}")


if __name__ == "__main__":
    anyio.run(partial(play, json.loads(Path(sys.argv[1]).read_text("utf-8")), Written(Path(sys.argv[2]))))
