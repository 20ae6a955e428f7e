"""The commands and the code of docs/dask.md, as they stand there; only the port is one that is free."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.dask.conftest import PATIENCE, Cluster, until

from interlock.permission import Permission

PAGE = (Path(__file__).parents[2] / "docs" / "dask.md").read_text("utf-8")
SHELL = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
PYTHON = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
ASKS = Permission(posture="none", otherwise="ask")


def free_port() -> int:
    """One that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Commands:
    """Commands of the page, each in a process group of its own, in a folder with `tasks.jsonl`."""

    def __init__(self, batches: Any) -> None:
        self.folder = batches.bench.folder
        self.env = {
            **{name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "XDG_STATE_HOME": str(self.folder / "default-state"),
        }
        batches.bench.state = self.folder / "default-state" / "interlock"
        tasks = [
            batches.task(batches.ran("asks"), {"text": "ok"}, id="asks", permission=ASKS),
            *batches.tasks(3),
        ]
        lines = [{"id": task.id, **task.request.model_dump(mode="json", exclude_defaults=True)} for task in tasks]
        (self.folder / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")

    @contextmanager
    def running(self, command: str) -> Iterator[subprocess.Popen[bytes]]:
        """One that runs meanwhile."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                shlex.split(command), env=self.env, cwd=self.folder, stdout=log, stderr=log, process_group=0
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # its nanny and its worker; no agent runs any more
            process.wait(10)

    def done(self, command: str) -> subprocess.CompletedProcess[bytes]:
        """One that is waited for."""
        return subprocess.run(
            shlex.split(command), env=self.env, cwd=self.folder, capture_output=True, timeout=PATIENCE, check=False
        )


@pytest.mark.timeout(300)
def test_the_five_commands_make_a_batch_that_asks(batches: Any) -> None:
    commands, port = Commands(batches), str(free_port())
    scheduler, first, second, batch, approvals = SHELL[0].replace("8786", port).splitlines()
    cluster = commands.running(scheduler), commands.running(first), commands.running(second)
    with cluster[0], cluster[1], cluster[2], commands.running(batch) as running:
        until(lambda: running.poll() is not None or list((commands.folder / "runs").glob("approvals/*.json")))
        listed = commands.done(approvals).stdout
        assert f"echo asks >> {batches.ledger}" in listed.decode()
        assert commands.done(f"{approvals} --approve {listed.decode().split()[0]}").returncode == 0
        assert running.wait(PATIENCE) == 0, (commands.folder / "log").read_text("utf-8")
    assert batches.executions() == {"asks": 1, "r1": 1, "r2": 1, "r3": 1}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_cluster_with_tls_makes_a_batch_and_is_closed_to_whoever_has_no_certificate(batches: Any) -> None:
    commands, address = Commands(batches), f"tls://127.0.0.1:{free_port()}"
    words = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 -subj /CN=x"
    made = commands.done(f"openssl {words} -addext subjectAltName=IP:127.0.0.1")
    assert made.returncode == 0, made.stderr
    (commands.folder / "ca.pem").write_bytes((commands.folder / "cert.pem").read_bytes())
    *exports, scheduler = SHELL[1].rstrip().split("\n")
    told = subprocess.run(
        ["bash", "-c", "\n".join([*exports, "env -0"])], env=commands.env, capture_output=True, check=True
    )
    named = dict(one.split("=", 1) for one in told.stdout.decode().split("\0") if one.startswith("DASK_"))
    without, commands.env = commands.env, {**commands.env, **named}
    program = commands.folder / "approve"
    program.write_text('#!/bin/sh\necho \'{"decision":"approve"}\'\n', "utf-8")
    program.chmod(0o755)
    worker = "--nthreads 2 --resources agent=2 --memory-limit 0 --no-dashboard --no-nanny"
    batch = f"interlock batch tasks.jsonl --out runs --engine dask --scheduler {address}"
    with (
        commands.running(f"{scheduler} --host 127.0.0.1 --port {address.rpartition(':')[2]} --no-dashboard"),
        commands.running(f"dask worker {address} {worker}"),
    ):
        done = commands.done(f"{batch} --approve-with {program}")
        assert done.returncode == 0, done.stderr
        commands.env = without
        refused = commands.done(batch.replace("--out runs", "--out none"))
    assert refused.returncode == 2
    assert b"does not answer, or not to us" in refused.stderr
    assert batches.executions() == {"asks": 1, "r1": 1, "r2": 1, "r3": 1}


@pytest.mark.anyio
@pytest.mark.slow
async def test_the_code_makes_a_batch(
    batches: Any, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        {"id": task.id, **task.request.model_dump(mode="json", exclude_defaults=True)} for task in batches.tasks(2)
    ]
    (batches.bench.folder / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    monkeypatch.chdir(batches.bench.folder)
    names: dict[str, Any] = {}
    exec(PYTHON[0].replace("tcp://10.0.0.1:8786", cluster.address), names)
    with anyio.fail_after(PATIENCE):
        await names["main"]()
    assert "'completed': 2" in capsys.readouterr().out
