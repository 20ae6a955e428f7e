"""Endpoints that an agent calls as its hook, over real sockets: trouble ends in the refusal, or in silence."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
import pytest

from interlock.adapter import Endpoint, Launch, LaunchFile, Place
from interlock.engine import hook_endpoint
from interlock.engine.home import Home
from interlock.engine.hook_endpoint import HookEndpoints

pytestmark = pytest.mark.anyio

REFUSAL = b'{"decision":"block"}'
PLAIN = Endpoint("plain", "http")
HOOKS = Endpoint("hooks", "mcp", ("before", "after"))


@dataclass
class Desk:
    """Notes what comes, and answers as it is told."""

    answer: Callable[[str, str, bytes], bytes | None] = lambda channel, key, body: b"yes " + body
    endpoints: HookEndpoints = field(init=False)
    calls: list[tuple[str, str, bytes]] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    news: anyio.Event = field(default_factory=anyio.Event)

    def called(self, channel: str, key: str, body: bytes) -> None:
        self.calls.append((channel, key, body))
        self.tell()
        data = self.answer(channel, key, body)
        if data is not None:
            assert self.endpoints.reply(channel, key, data)

    def hung_up(self, channel: str, key: str) -> None:
        self.gone.append(key)
        self.tell()

    def repeated(self, channel: str, message: str) -> None:
        self.again.append(f"{channel}: {message}")

    def stranger(self, message: str) -> None:
        self.strangers.append(message)

    def trouble(self, message: str, error: Exception | None = None) -> None:
        self.troubles.append(f"{message} {error!r}" if error else message)
        self.tell()

    def tell(self) -> None:
        news, self.news = self.news, anyio.Event()
        news.set()

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait for a state."""
        while not holds():
            await self.news.wait()


@asynccontextmanager
async def serving(desk: Desk, *endpoints: Endpoint) -> AsyncIterator[HookEndpoints]:
    """Endpoints that are open and served, and closed in the end."""
    desk.endpoints = HookEndpoints(endpoints, {endpoint.name: REFUSAL for endpoint in endpoints}, desk)
    await desk.endpoints.open()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(desk.endpoints.serve)
            yield desk.endpoints
            group.cancel_scope.cancel()
    await desk.endpoints.close()


async def connect(place: Place) -> anyio.abc.SocketStream:
    return await anyio.connect_tcp("127.0.0.1", int(place.url.split(":")[2].split("/")[0]))


def request(
    place: Place, body: bytes, *, method: str = "POST", token: str | None = None, path: str = "", keep: bool = False
) -> bytes:
    """A request as bytes; with the right token unless another is given, and the last of its connection unless kept."""
    target = path or "/" + place.url.rpartition("/")[2]
    lines = [f"{method} {target} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
    if not keep:
        lines.append("Connection: close")
    if token != "":
        lines.append(f"Authorization: Bearer {token or place.token}")
    return "\r\n".join([*lines, "", ""]).encode() + body


async def everything(stream: anyio.abc.ByteStream) -> bytes:
    heard = b""
    try:
        while True:
            heard += await stream.receive()
    except anyio.EndOfStream:
        return heard


def parse(answer: bytes) -> tuple[int, bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    return int(head.split()[1]), body


async def say(place: Place, data: bytes) -> tuple[int, bytes]:
    async with await connect(place) as stream:
        await stream.send(data)
        return parse(await everything(stream))


async def post(place: Place, body: bytes, **more: Any) -> tuple[int, bytes]:
    """Call an endpoint: the status and the body of its answer."""
    return await say(place, request(place, body, **more))


async def rpc(place: Place, method: str, **params: Any) -> Any:
    """Ask an MCP endpoint, and check the frame of its answer."""
    question = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    status, body = await post(place, json.dumps(question).encode())
    answer = json.loads(body)
    assert (status, answer.pop("jsonrpc"), answer.pop("id")) == (200, "2.0", 7)
    return answer


# ---- what an agent says, and hears -----------------------------------------------------------------------------------


async def test_a_plain_endpoint_hands_the_body_over_and_answers_with_the_reply() -> None:
    async with serving(desk := Desk(), PLAIN) as endpoints:
        assert await post(endpoints.places["plain"], b'{"tool":"x"}') == (200, b'yes {"tool":"x"}')
    ((channel, _, body),) = desk.calls
    assert (channel, body) == ("plain", b'{"tool":"x"}')


async def test_an_mcp_endpoint_shakes_hands_and_hides_its_tools_from_the_model() -> None:
    async with serving(desk := Desk(), HOOKS) as endpoints:
        place = endpoints.places["hooks"]
        hello = (await rpc(place, "initialize", protocolVersion="2026-01-01"))["result"]
        assert hello["protocolVersion"] == "2026-01-01"
        assert hello["capabilities"] == {"tools": {}}
        assert await post(place, b'{"jsonrpc":"2.0","method":"notifications/initialized"}') == (202, b"")
        tools = (await rpc(place, "tools/list"))["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["before", "after"]
        assert all(tool["_meta"] == {"ui": {"visibility": ["app"]}} for tool in tools)
        assert (await rpc(place, "ping"))["result"] == {}
        assert (await rpc(place, "resources/list"))["error"]["code"] == -32601
        assert (await post(place, b"", method="GET"))[0] == 405
    assert (desk.calls, desk.troubles) == ([], [])


async def test_a_call_over_mcp_hands_its_parameters_over_and_answers_with_one_text_block() -> None:
    async with serving(desk := Desk(lambda *_: '{"decision":"ü"}'.encode()), HOOKS) as endpoints:
        arguments = {"input": {"command": "ls"}}
        answer = await rpc(endpoints.places["hooks"], "tools/call", name="before", arguments=arguments, _meta={"t": 1})
    assert answer["result"] == {"content": [{"type": "text", "text": '{"decision":"ü"}'}]}
    assert json.loads(desk.calls[0][2]) == {"name": "before", "arguments": arguments, "_meta": {"t": 1}}


async def test_calls_wait_side_by_side_and_are_answered_in_any_order() -> None:
    answers: dict[bytes, bytes] = {}

    async def call(place: Place, body: bytes) -> None:
        answers[body] = (await post(place, body))[1]

    async with serving(desk := Desk(lambda *_: None), PLAIN) as endpoints, anyio.create_task_group() as group:
        group.start_soon(call, endpoints.places["plain"], b"one")
        group.start_soon(call, endpoints.places["plain"], b"two")
        await desk.until(lambda: len(desk.calls) == 2)
        assert answers == {}
        for channel, key, body in reversed(desk.calls):
            endpoints.reply(channel, key, b"about " + body)
    assert answers == {b"one": b"about one", b"two": b"about two"}


async def test_a_body_may_come_in_chunks_and_after_a_go_ahead() -> None:
    async with serving(Desk(), PLAIN) as endpoints:
        place = endpoints.places["plain"]
        head = (
            f"POST /plain HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {place.token}\r\nTransfer-Encoding: chunked\r\n"
            "Connection: close\r\n"
        )
        assert await say(place, f"{head}\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n".encode()) == (200, b"yes abc")
        async with await connect(place) as stream:
            await stream.send(f"{head}Expect: 100-continue\r\n\r\n".encode())
            assert (await stream.receive()).startswith(b"HTTP/1.1 100")
            await stream.send(b"1\r\nd\r\n0\r\n\r\n")
            assert parse(await everything(stream)) == (200, b"yes d")


# ---- one request after the other -------------------------------------------------------------------------------------


async def kept(stream: anyio.abc.ByteStream, length: int) -> bytes:
    """The body, of that length, of an answer after which the connection stays open."""
    heard = b""
    while len(heard.partition(b"\r\n\r\n")[2]) < length:
        heard += await stream.receive()
    head, _, body = heard.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"connection: close" not in head.lower()
    return body


async def test_a_caller_may_keep_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_endpoint, "HELD_AT_MOST", 10)  # of what is open at a time, not of a connection
    async with serving(desk := Desk(), PLAIN) as endpoints, await connect(endpoints.places["plain"]) as stream:
        for body in (b"first", b"second", b"third"):
            await stream.send(request(endpoints.places["plain"], body, keep=True))
            assert await kept(stream, 4 + len(body)) == b"yes " + body
    assert [body for _, _, body in desk.calls] == [b"first", b"second", b"third"]
    assert (desk.gone, desk.troubles) == ([], [])


async def test_a_kept_connection_costs_nobody_anything_and_is_not_closed_while_it_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hook_endpoint, "DOORMEN", 1)
    async with serving(Desk(), PLAIN) as endpoints:
        place = endpoints.places["plain"]
        async with await connect(place) as idle:
            await idle.send(request(place, b"x", keep=True))
            assert await kept(idle, 5) == b"yes x"
            with monkeypatch.context() as hasty:
                hasty.setattr(hook_endpoint, "HEAD_WITHIN", 0.05)
                async with await connect(place) as silent:
                    assert await everything(silent) == b""  # who has not shown a token is sent away meanwhile
            assert await post(place, b"y") == (200, b"yes y")
            await idle.send(request(place, b"z", keep=True))
            assert await kept(idle, 5) == b"yes z"


async def test_a_request_that_comes_while_the_one_before_is_open_waits_for_its_turn() -> None:
    async with serving(desk := Desk(lambda *_: None), PLAIN) as endpoints:
        place = endpoints.places["plain"]
        async with await connect(place) as stream:
            await stream.send(request(place, b"one", keep=True))
            await desk.until(lambda: len(desk.calls) == 1)
            await stream.send(request(place, b"two", keep=True) + request(place, b"three"))
            endpoints.reply(*desk.calls[0][:2], b"1")
            assert await kept(stream, 1) == b"1"
            await desk.until(lambda: len(desk.calls) == 2)
            endpoints.reply(*desk.calls[1][:2], b"2")
            assert await kept(stream, 1) == b"2"
            await desk.until(lambda: len(desk.calls) == 3)
            endpoints.reply(*desk.calls[2][:2], b"3")
            assert parse(await everything(stream)) == (200, b"3")
    assert [body for _, _, body in desk.calls] == [b"one", b"two", b"three"]


async def test_each_request_of_a_kept_connection_shows_the_token() -> None:
    async with serving(desk := Desk(), PLAIN) as endpoints:
        place = endpoints.places["plain"]
        async with await connect(place) as stream:
            await stream.send(request(place, b"x", keep=True))
            assert await kept(stream, 5) == b"yes x"
            await stream.send(request(place, b"y", keep=True, token="guess"))
            assert parse(await everything(stream)) == (401, b"")
    assert len(desk.calls) == len(desk.strangers) == 1


async def test_a_kept_connection_is_refused_when_the_run_winds_down() -> None:
    async with serving(desk := Desk(), PLAIN) as endpoints:
        place = endpoints.places["plain"]
        async with await connect(place) as stream:
            await stream.send(request(place, b"x", keep=True))
            assert await kept(stream, 5) == b"yes x"
            endpoints.refuse()
            await stream.send(request(place, b"y", keep=True))
            assert await kept(stream, len(REFUSAL)) == REFUSAL
    assert len(desk.calls) == 1


async def test_who_hangs_up_with_a_request_open_on_a_kept_connection_is_noticed() -> None:
    async with serving(desk := Desk(lambda *_: None), PLAIN) as endpoints:
        place = endpoints.places["plain"]
        async with await connect(place) as stream:
            await stream.send(request(place, b"x", keep=True) + b"POST /pl")
            await desk.until(lambda: desk.calls)
        await desk.until(lambda: desk.gone)


# ---- who may speak ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [{"token": ""}, {"token": "guess"}, {"path": "/"}, {"path": "/other"}, {"method": "GET", "token": "guess"}],
    ids=["none", "guess", "root", "other-place", "get"],
)
async def test_who_does_not_know_the_token_is_turned_away_and_nothing_is_asked(wrong: dict[str, str]) -> None:
    async with serving(desk := Desk(), PLAIN) as endpoints:
        assert await post(endpoints.places["plain"], b"x", **wrong) == (401, b"")
        assert await post(endpoints.places["plain"], b"x", **wrong) == (401, b"")
        assert await post(endpoints.places["plain"], b"honest") == (200, b"yes honest")
    assert len(desk.strangers) == 1
    assert [body for _, _, body in desk.calls] == [b"honest"]


async def test_each_endpoint_has_a_token_of_its_own_that_is_not_shown() -> None:
    async with serving(desk := Desk(), PLAIN, HOOKS) as endpoints:
        plain, hooks = endpoints.places["plain"], endpoints.places["hooks"]
        assert (await post(plain, b"x", token=hooks.token))[0] == 401
        assert plain.token not in repr(plain)
    assert desk.calls == []


async def test_a_caller_that_never_shows_a_token_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_endpoint, "DOORMEN", 2)
    monkeypatch.setattr(hook_endpoint, "HEAD_WITHIN", 0.2)
    async with serving(Desk(), PLAIN) as endpoints:
        place = endpoints.places["plain"]
        async with await connect(place) as one, await connect(place) as two:
            await one.send(b"POST /pl")
            assert await post(place, b"x") == (200, b"yes x")
            await two.send(b"POST")
            assert await everything(one) == b""


async def test_what_is_no_http_is_dropped_without_a_word() -> None:
    async with serving(desk := Desk(), PLAIN) as endpoints, await connect(endpoints.places["plain"]) as stream:
        await stream.send(b"\x16\x03\x01 hello\r\n\r\n")
        assert await everything(stream) == b""
    assert (desk.troubles, desk.strangers) == ([], [])


async def test_the_same_call_again_while_the_first_is_open_is_refused_and_said() -> None:
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"before","arguments":{"id":"c1"}}}'
    async with serving(desk := Desk(lambda *_: None), HOOKS) as endpoints, anyio.create_task_group() as group:
        place = endpoints.places["hooks"]
        group.start_soon(post, place, call)
        await desk.until(lambda: desk.calls)
        _, body = await post(place, call)
        assert json.loads(body)["result"]["content"][0]["text"] == REFUSAL.decode()
        assert len(desk.again) == 1
        endpoints.reply(*desk.calls[0][:2], b"")
    assert len(desk.calls) == 1


# ---- when our side is in trouble -------------------------------------------------------------------------------------


async def test_when_the_run_winds_down_all_that_is_open_or_still_comes_is_refused() -> None:
    heard: list[bytes] = []

    async def call(place: Place) -> None:
        heard.append((await post(place, b"open"))[1])

    async with serving(desk := Desk(lambda *_: None), PLAIN) as endpoints:
        async with anyio.create_task_group() as group:
            group.start_soon(call, endpoints.places["plain"])
            await desk.until(lambda: desk.calls)
            endpoints.refuse()
        assert await post(endpoints.places["plain"], b"late") == (200, REFUSAL)
    assert heard == [REFUSAL]
    assert len(desk.calls) == 1


async def test_a_plain_endpoint_whose_calls_no_answer_refuses_keeps_them_waiting_until_the_agent_is_gone() -> None:
    async with serving(desk := Desk(lambda *_: None), Endpoint("plain", "http", unrefused=("plain",))) as endpoints:
        async with await connect(endpoints.places["plain"]) as stream:
            await stream.send(request(endpoints.places["plain"], b"open"))
            await desk.until(lambda: desk.calls)
            endpoints.refuse()
            with anyio.move_on_after(0.1) as waited:
                await stream.receive()
        assert waited.cancelled_caught
        await desk.until(lambda: desk.gone)


async def test_a_fault_of_ours_is_refused_and_said() -> None:
    def fail(*_: object) -> bytes:
        raise RuntimeError("a bug")

    async with serving(desk := Desk(fail), PLAIN) as endpoints:
        assert await post(endpoints.places["plain"], b"x") == (200, REFUSAL)
    assert "a bug" in desk.troubles[0]


async def test_a_reply_that_is_no_text_becomes_the_refusal() -> None:
    async with serving(desk := Desk(lambda *_: b"\xff"), HOOKS) as endpoints:
        answer = await rpc(endpoints.places["hooks"], "tools/call", name="before")
    assert answer["result"]["content"][0]["text"] == REFUSAL.decode()
    assert len(desk.troubles) == 1


@pytest.mark.parametrize(
    "message",
    [
        b"no json",
        b"[]",
        b"{}",
        b'{"id":1}',
        b'{"id":null,"method":"ping"}',
        b'{"id":1.5,"method":"ping"}',
        b'{"id":true,"method":"tools/call"}',
        b'{"id":1,"method":"tools/call","params":{"name":"other"}}',
    ],
)
async def test_a_message_that_makes_no_sense_is_said_and_gets_no_answer(message: bytes) -> None:
    async with serving(desk := Desk(), HOOKS) as endpoints:
        place = endpoints.places["hooks"]
        async with await connect(place) as stream:
            await stream.send(request(place, message))
            await desk.until(lambda: desk.troubles)
            with anyio.move_on_after(0.05):
                raise AssertionError(await stream.receive())
    assert desk.calls == []


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "in-chunks"])
async def test_a_body_without_end_is_said_and_gets_no_answer(monkeypatch: pytest.MonkeyPatch, announced: bool) -> None:
    monkeypatch.setattr(hook_endpoint, "LONGEST_BODY", 1000)
    async with serving(desk := Desk(), PLAIN) as endpoints:
        place = endpoints.places["plain"]
        async with await connect(place) as stream:
            if announced:
                await stream.send(request(place, b"x" * 1001))
            else:
                head = f"POST /plain HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {place.token}\r\n"
                await stream.send(f"{head}Transfer-Encoding: chunked\r\n\r\n3e9\r\n{'x' * 1001}\r\n".encode())
            await desk.until(lambda: desk.troubles)
        assert "no end after" in desk.troubles[0]
        assert await post(place, b"x" * 990) == (200, b"yes " + b"x" * 990)


async def test_all_open_calls_together_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_endpoint, "HELD_AT_MOST", 1500)
    async with serving(desk := Desk(lambda *_: None), PLAIN) as endpoints:
        place = endpoints.places["plain"]
        async with await connect(place) as one, await connect(place) as two:
            await one.send(request(place, b"1" * 1000))
            await desk.until(lambda: desk.calls)
            await two.send(request(place, b"2" * 1000))
            await desk.until(lambda: desk.troubles)
    assert [body[:1] for _, _, body in desk.calls] == [b"1"]


async def test_a_caller_that_hangs_up_is_said_and_a_late_reply_is_left_alone() -> None:
    async with serving(desk := Desk(lambda *_: None), PLAIN) as endpoints:
        place = endpoints.places["plain"]
        async with await connect(place) as stream:
            await stream.send(request(place, b"x"))
            await desk.until(lambda: desk.calls)
        await desk.until(lambda: desk.gone)
        channel, key, _ = desk.calls[0]
        assert desk.gone == [key]
        assert endpoints.reply(channel, key, b"late")
        assert not endpoints.reply("nowhere", key, b"x")


async def test_a_large_reply_arrives_whole() -> None:
    async with serving(Desk(lambda *_: b"y" * 3_000_000), PLAIN) as endpoints:
        assert await post(endpoints.places["plain"], b"x" * 3_000_000) == (200, b"y" * 3_000_000)


# ---- from start to end -----------------------------------------------------------------------------------------------


async def test_callers_may_come_before_anybody_serves_and_the_port_is_given_back() -> None:
    desk = Desk()
    desk.endpoints = endpoints = HookEndpoints([PLAIN], {"plain": REFUSAL}, desk)
    await endpoints.open()
    place = endpoints.places["plain"]
    with anyio.fail_after(5):
        async with await connect(place) as stream:
            await stream.send(request(place, b"early"))
            async with anyio.create_task_group() as group:
                group.start_soon(endpoints.serve)
                assert parse(await everything(stream)) == (200, b"yes early")
                group.cancel_scope.cancel()
        await endpoints.close()
        with pytest.raises(OSError):
            await connect(place)


async def test_without_endpoints_nothing_is_opened() -> None:
    endpoints = HookEndpoints([], {}, Desk())
    with anyio.fail_after(5):
        await endpoints.open()
        await endpoints.serve()
        await endpoints.close()
    assert endpoints.places == {}


@pytest.mark.parametrize(
    ("given", "refusals"),
    [([PLAIN], {}), ([PLAIN, PLAIN], {"plain": b""}), ([Endpoint("a/b", "http")], {"a/b": b""})],
    ids=["no-refusal", "one-name-twice", "no-name"],
)
async def test_endpoints_that_cannot_fail_closed_are_an_error(given: list[Endpoint], refusals: Any) -> None:
    with pytest.raises(ValueError, match=r"endpoints need names|no refusal"):
        HookEndpoints(given, refusals, Desk())


async def test_a_token_reaches_secret_files_and_nothing_else(tmp_path: Any) -> None:
    text = "{endpoint:plain} {token:plain}"
    files = (
        LaunchFile("secret", text, "secret", template=True),
        LaunchFile("prompt", text, "prompt", template=True),
        LaunchFile("literal", text, "secret"),
    )
    places = {"plain": Place("http://127.0.0.1:1/plain", "T")}
    home = await Home.make("run", tmp_path, Launch(argv=(), env={}, files=files), places)
    assert (home.folder / "secret").read_text(encoding="utf-8") == "http://127.0.0.1:1/plain T"
    assert (home.folder / "prompt").read_text(encoding="utf-8") == "http://127.0.0.1:1/plain {token:plain}"
    assert (home.folder / "literal").read_text(encoding="utf-8") == text
    assert home.fill(text) == "http://127.0.0.1:1/plain {token:plain}"
    assert (home.folder / "secret").stat().st_mode & 0o777 == 0o600
