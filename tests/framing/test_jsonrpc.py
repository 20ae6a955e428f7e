"""Requests find their answers, and what fits nothing is a value."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.framing import jsonrpc
from interlock.framing.jsonrpc import (
    Call,
    Failure,
    Malformed,
    Note,
    Peer,
    Rejected,
    Reply,
    UnknownId,
)


def wire(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def test_a_request_is_matched_with_its_answer_once() -> None:
    peer = Peer()
    request, sent = peer.request("session/new", {"cwd": "/repo"})

    assert json.loads(sent) == {
        "jsonrpc": "2.0",
        "id": request,
        "method": "session/new",
        "params": {"cwd": "/repo"},
    }
    assert peer.ours.open == {request: "session/new"}
    assert peer.receive(wire(id=request, result={"ok": True})) == Reply(request, "session/new", {"ok": True})
    assert peer.ours.open == {}
    assert peer.receive(wire(id=request, result={"ok": True})) == UnknownId(request, answered=True)


def test_answers_come_in_any_order() -> None:
    peer = Peer()
    (first, _), (second, _) = peer.request("a"), peer.request("b")

    assert peer.receive(wire(id=second, result=None)) == Reply(second, "b", None)
    assert peer.receive(wire(id=first, result=1)) == Reply(first, "a", 1)


def test_an_error_answer_is_a_failure_with_its_data() -> None:
    peer = Peer()
    request, _ = peer.request("a")

    assert peer.receive(wire(id=request, error={"code": -32601, "message": "no", "data": [1]})) == Failure(
        request, "a", -32601, "no", [1]
    )


@pytest.mark.parametrize("error", ["boom", 7, [], {}, {"code": "x", "message": 3}, {"code": True}])
def test_an_error_of_any_shape_ends_the_request(error: object) -> None:
    peer = Peer()
    request, _ = peer.request("a")

    failure = peer.receive(wire(id=request, error=error))

    assert isinstance(failure, Failure)
    assert failure.code == 0
    assert peer.ours.open == {}


def test_an_answer_to_nothing_that_we_asked_is_unknown() -> None:
    peer = Peer()
    peer.request("a")

    assert peer.receive(wire(id=99, result={})) == UnknownId(99, answered=False)
    assert peer.receive(wire(id="1", result={})) == UnknownId("1", answered=False)
    assert peer.receive(wire(id=None, error={"code": -32700, "message": "parse"})) == UnknownId(None, answered=False)
    assert peer.receive(wire(id=True, result={})) == UnknownId(None, answered=False)
    assert list(peer.ours.open.values()) == ["a"]


def test_both_sides_may_use_the_same_id() -> None:
    peer = Peer()
    request, _ = peer.request("ours")

    assert peer.receive(wire(id=request, method="theirs", params=[1])) == Call(request, "theirs", [1])
    assert peer.receive(wire(id=request, result=2)) == Reply(request, "ours", 2)
    assert peer.theirs.open == {request: "theirs"}
    answer = peer.respond(request, {"a": 1})
    assert isinstance(answer, bytes)
    assert json.loads(answer) == {"jsonrpc": "2.0", "id": request, "result": {"a": 1}}


def test_an_integer_id_and_its_text_are_two_ids() -> None:
    peer = Peer()

    assert peer.receive(wire(id=1, method="m")) == Call(1, "m", None)
    assert peer.receive(wire(id="1", method="m")) == Call("1", "m", None)
    assert peer.theirs.open == {1: "m", "1": "m"}


def test_a_request_of_the_peer_is_answered_once() -> None:
    peer = Peer()
    peer.receive(wire(id=5, method="ask"))

    assert not peer.theirs.answered(5)
    assert isinstance(peer.respond(5, None), bytes)
    assert peer.theirs.answered(5)
    assert peer.respond(5, None) == UnknownId(5, answered=True)
    assert peer.fail(5, -32603, "late") == UnknownId(5, answered=True)
    assert peer.respond(6, None) == UnknownId(6, answered=False)


def test_a_failure_carries_code_message_and_data() -> None:
    peer = Peer()
    peer.receive(wire(id=5, method="ask"))
    peer.receive(wire(id="x", method="ask"))

    first, second = peer.fail(5, -32601, "no such method"), peer.fail("x", 1, "m", {"d": 1})

    assert isinstance(first, bytes)
    assert isinstance(second, bytes)
    assert json.loads(first)["error"] == {"code": -32601, "message": "no such method"}
    assert json.loads(second)["error"] == {"code": 1, "message": "m", "data": {"d": 1}}


def test_an_id_that_is_still_open_is_not_taken_twice() -> None:
    peer = Peer()
    peer.receive(wire(id=5, method="ask"))

    assert peer.receive(wire(id=5, method="other")) == Rejected(5, "other", "duplicate")
    assert peer.theirs.open == {5: "ask"}


def test_an_answered_id_may_be_asked_again() -> None:
    peer = Peer()
    peer.receive(wire(id=5, method="ask"))
    peer.respond(5, None)

    assert peer.receive(wire(id=5, method="again")) == Call(5, "again", None)
    assert not peer.theirs.answered(5)


def test_the_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonrpc, "MAX_OPEN", 3)
    monkeypatch.setattr(jsonrpc, "MAX_ANSWERED", 2)
    peer = Peer()
    for number in range(3):
        assert isinstance(peer.receive(wire(id=number, method="ask")), Call)

    assert peer.receive(wire(id=3, method="ask")) == Rejected(3, "ask", "too many")
    for number in range(3):
        peer.respond(number, None)
    assert [peer.theirs.answered(number) for number in range(3)] == [False, True, True]


def test_notifications_have_no_id_both_ways() -> None:
    peer = Peer()

    assert json.loads(peer.notify("initialized")) == {"jsonrpc": "2.0", "method": "initialized"}
    assert peer.receive(wire(method="update", params={"a": 1})) == Note("update", {"a": 1})


def test_the_version_member_is_optional_both_ways() -> None:
    peer = Peer(version=False)
    request, sent = peer.request("initialize")

    assert json.loads(sent) == {"id": request, "method": "initialize"}
    assert peer.receive(b'{"id":1,"result":{}}') == Reply(request, "initialize", {})


def test_messages_are_ascii_on_one_line() -> None:
    _, sent = Peer().request("m", {"text": "a\nb\u2028c\u0085😀"})

    assert sent.isascii()
    assert b"\n" not in sent
    assert json.loads(sent)["params"] == {"text": "a\nb\u2028c\u0085😀"}


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"not json",
        b"[]",
        b'[{"jsonrpc":"2.0","method":"a"}]',
        b"{}",
        b'{"id":1}',
        b'{"id":1,"result":1,"error":{"code":1,"message":"m"}}',
        b'{"id":1,"method":7}',
        b'{"id":null,"method":"m"}',
        b'{"id":1.5,"method":"m"}',
        b'{"id":true,"method":"m"}',
        b'{"id":[1],"method":"m"}',
        b'{"method":"m","params":NaN}',
        b"\xff\x00",
    ],
)
def test_what_is_no_message_is_malformed_and_touches_nothing(message: bytes) -> None:
    peer = Peer()
    request, _ = peer.request("a")

    found = peer.receive(message)

    assert isinstance(found, Malformed)
    assert found.reason
    assert peer.ours.open == {request: "a"}
    assert peer.theirs.open == {}


@given(message=st.binary(max_size=100))
def test_no_bytes_make_it_raise(message: bytes) -> None:
    Peer().receive(message)
