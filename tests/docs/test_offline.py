"""The offline guide, played by a person at a terminal with each of the real CLIs."""

import os
import re
import sys
from pathlib import Path

import pexpect
import pytest

from interlock_fixtures.clis import copilot_cache, find_cli

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[2]
(BLOCK,) = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "offline.md").read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("agent", ["claude", "codex", "copilot"])
@pytest.mark.sampled
def test_the_offline_guide_leads_to_a_question_and_a_yes_to_the_file(agent: str, tmp_path: Path) -> None:
    cli = find_cli(agent, "newest")
    if cli is None:
        pytest.skip(f"no {agent} is installed")
    places = {name: tmp_path / name for name in ("bin", "home", "checkout")}
    for place in places.values():
        place.mkdir()
    (places["bin"] / agent).symlink_to(cli)
    (places["bin"] / "python").symlink_to(sys.executable)
    command = places["bin"] / "interlock"
    command.write_text(f"#!{sys.executable}\nfrom interlock_adapters.cli import main\nmain()\n", "utf-8")
    command.chmod(0o700)
    (places["checkout"] / "examples").symlink_to(ROOT / "examples")
    if agent == "copilot":  # what it unpacks at its first start all tests share
        unpacked = places["home"] / ".local/state/interlock/copilot/packages"
        unpacked.parent.mkdir(parents=True)
        unpacked.symlink_to(copilot_cache() / "copilot")
    text = re.sub("^agent=.*", f"agent={agent}", BLOCK) + 'code=$?; kill "$!"; exit $code\n'
    env = {
        "HOME": str(places["home"]),
        "PATH": f"{places['bin']}:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TERM": "xterm",
    }
    where = str(places["checkout"])
    child: pexpect.spawn[str] = pexpect.spawn(
        "/bin/bash", ["-c", text], cwd=where, env=env, encoding="utf-8", timeout=60
    )
    child.expect("touch hello.txt")
    child.expect("llow.*: ")
    assert not (places["checkout"] / "hello.txt").exists()
    child.send("y\n")
    child.expect("I made hello.txt")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert (places["checkout"] / "hello.txt").exists()
