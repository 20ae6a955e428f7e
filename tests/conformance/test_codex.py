"""The Codex adapter keeps the contract: every check, on every recording of both of its transports."""

import pytest

from interlock.actions import Reply
from interlock_adapters.codex import adapter
from interlock_adapters.codex.app_server.codec import AppServerCodec
from interlock_fixtures.conformance import checks, run_checks, subject_of

SHOWN_LIVE = frozenset({"asks_in_parallel", "confines", "network_switch", "replace_failed"})
"""By tests/live/test_codex_*.py; `EVIDENCE` in test_codex_claims.py says by which test."""
SPARSE = 10
"""Seeded offsets at which each conversation is cut; more of them where tests may be slow."""


@pytest.fixture(scope="session")
def codex(recordings_folder):
    """The adapter with the recordings of one transport, or of all."""

    def make(transport=None, **more):
        subject = subject_of(adapter, recordings_folder / "codex", shown_elsewhere=SHOWN_LIVE, **more)
        return subject.only(*(one for one in subject.recordings if transport in {None, one.meta.transport}))

    return make


@pytest.mark.behaviour("kit:conformance:codex", "kit:replay:endpoint")
@pytest.mark.parametrize("check", checks(), ids=lambda check: f"{check.number:02}")
def test_the_codex_adapter_keeps_the_contract(check, codex) -> None:
    check(codex(offsets=SPARSE, process_offsets=4, process_edges=4, processes=3))


@pytest.mark.parametrize("number", [51, 52])
def test_exec_keeps_it_as_a_process_too(number, codex) -> None:
    chosen = next(check for check in checks() if check.number == number)
    chosen(codex("exec", process_offsets=4, process_edges=4, processes=3))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("transport", ["exec", "app-server"])
@pytest.mark.parametrize("number", [50, 51, 52, 53])
def test_replays_keep_it_at_all_edges_and_a_hundred_offsets_on_both_loops(number, transport, backend, codex) -> None:
    chosen = next(check for check in checks() if check.number == number)
    chosen(codex(transport, process_offsets=100, processes=12, backend=backend))


@pytest.mark.slow
def test_conversations_may_be_cut_at_two_hundred_offsets_each(codex) -> None:
    chosen = next(check for check in checks() if check.number == 20)
    chosen(codex(offsets=200))


def test_there_are_many_recordings_of_each_transport(codex) -> None:
    recordings = codex().recordings
    assert {recording.meta.version for recording in recordings} == {adapter.versions.oldest, adapter.versions.newest}
    for transport, least in (("app-server", 40), ("exec", 20)):
        assert len([one for one in recordings if one.meta.transport == transport]) >= least


def test_what_the_agent_calls_us_with_is_in_the_recordings_of_app_server(codex) -> None:
    begun = [one for one in codex("app-server").recordings if one.meta.case != "session-not-found"]
    for recording in begun:
        channels = [wire.channel for wire in recording.wire]
        assert channels.count("call") == channels.count("answer") + channels.count("hangup") >= 2, recording.name
        assert dict(recording.meta.endpoints) == {"hooks": "mcp"}


class Silent(AppServerCodec):
    """Never answers a call of its endpoint that somebody decided about."""

    def decided(self, key, stage, verdict):
        return [action for action in super().decided(key, stage, verdict) if not isinstance(action, Reply)]


class Nodding(AppServerCodec):
    """Says yes to every call, whatever was decided."""

    def decided(self, key, stage, verdict):
        told = super().decided(key, stage, verdict)
        return [Reply(one.channel, one.key, b"") if isinstance(one, Reply) else one for one in told]


class Deaf(AppServerCodec):
    """Raises at a call that it cannot read."""

    def called(self, channel, key, body):
        body.decode().index('"_meta"')
        return super().called(channel, key, body)


@pytest.mark.parametrize(("codec", "caught"), [(Silent, {11, 30, 31}), (Nodding, {11, 31, 33}), (Deaf, {24})])
def test_a_bug_in_the_answers_to_calls_of_the_endpoint_is_caught(codec, caught, codex, planted) -> None:
    subject = codex("app-server")
    chosen = [one for one in subject.recordings if one.meta.case in {"shell-deny", "shell-replace", "patch"}]
    transport = planted.Round(adapter.transports[1], codec=codec)
    subject = subject_of(planted.Round(adapter, transports=(transport,)), chosen)
    report = run_checks(subject, [check for check in checks() if check.number in {10, 11, 24, 30, 31, 32, 33}])
    assert caught <= set(report.failed), report.describe()
