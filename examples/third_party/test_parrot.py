"""The whole conformance suite on the parrot, on a conversation that is recorded when this file is run."""

from pathlib import Path

from interlock import Request, run_sync
from interlock.engine.registry import find_adapter
from interlock_fixtures.conformance import run_conformance
from interlock_fixtures.record import Recorder

PARROT = Path(__file__).with_name("parrot")


def test_the_parrot_keeps_the_contract(tmp_path: Path) -> None:
    adapter = find_adapter("parrot")  # by its entry point
    workspace = tmp_path / "repo"
    workspace.mkdir()
    with Recorder(adapter, PARROT, version="1") as recorder:
        request = Request(agent="parrot", prompt="hello there", cwd=str(workspace), binary=str(recorder.program))
        assert run_sync(request, state=tmp_path / "state").text == "hello there "
        recording = recorder.recording("hello", recorded_by="test_parrot.py")
    report = run_conformance(adapter, [recording])
    assert report.ok, report.describe()
