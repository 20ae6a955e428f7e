"""Private folders of hosts that were killed are taken away by the next host."""

import os
import subprocess
import sys
from pathlib import Path

from interlock.adapter import Launch
from interlock.engine.home import Home
from interlock.engine.leftovers import OWNER, claim, sweep


def test_a_folder_of_a_host_that_is_gone_is_removed_and_others_stay(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for name in ("mine", "orphan", "reused", "strange"):
        (tmp_path / name).mkdir()
    claim(tmp_path / "mine")
    (tmp_path / "orphan" / OWNER).write_text(f"{gone.pid} 12345", encoding="utf-8")
    (tmp_path / "reused" / OWNER).write_text(f"{os.getpid()} 1", encoding="utf-8")
    sweep(tmp_path)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["mine", "strange"]


def test_a_run_claims_its_folder(tmp_path: Path) -> None:
    home = Home.make("run-1", tmp_path, Launch(argv=(), env={}), {})
    assert (home.folder / OWNER).read_text(encoding="utf-8").split()[0] == str(os.getpid())
    home.remove()
    assert not home.folder.exists()
