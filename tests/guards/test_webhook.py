"""The webhook approver against real servers on this machine: decisions at once and later, and every trouble denied."""

import hashlib
import hmac
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import pytest

from interlock.approval import Approval, Approve, Deny
from interlock.errors import ConfigurationError
from interlock.tools import Subject, ToolCall, ToolKind
from interlock_adapters.guards import WebhookApprover

pytestmark = pytest.mark.anyio

CALL = ToolCall(
    tool_call_id="t", tool_name="Bash", input={"command": "ls"}, tool_kind=ToolKind.SHELL, subject=Subject(command="ls")
)
APPROVAL = Approval(id="a1", run_id="r1", agent="claude", call=CALL)
Answer = Callable[[BaseHTTPRequestHandler, bytes], tuple[int, dict[str, str], bytes]]


class Server:
    """An HTTP server that answers as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers: list[Answer] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.asked.append((self.command, self.path, dict(self.headers.items()), body))
                answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
                status, headers, data = answer(self, body)
                if not status:
                    self.wfile.write(data)
                    return
                self.send_response(status)
                for name, value in {"Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = _answer  # noqa: N815  # the names of the base class

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/approve?team=x"

    def answer(self, *answers: tuple[int, dict[str, str], bytes] | Answer) -> None:
        self.answers = [one if callable(one) else (lambda *_, said=one: said) for one in answers]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.close()


def said(decision: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(decision).encode()


async def asked(approver: WebhookApprover) -> Approve | Deny:
    with anyio.fail_after(20):
        return await approver(APPROVAL)


async def test_the_approval_is_posted_and_the_decision_read(server: Server) -> None:
    server.answer(said({"decision": "approve", "remember": "shell(ls:*)"}))
    answer = await asked(WebhookApprover(server.url, token="t0ken", secret=b"key"))
    assert isinstance(answer, Approve)
    assert str(answer.remember) == "shell(ls:*)"
    ((method, path, headers, body),) = server.asked
    assert (method, path) == ("POST", "/approve?team=x")
    assert Approval.parse_json(body) == APPROVAL
    assert headers["Authorization"] == "Bearer t0ken"
    assert headers["Content-Type"] == "application/json"
    assert headers["Interlock-Signature"] == "sha256=" + hmac.new(b"key", body, hashlib.sha256).hexdigest()


async def test_a_denial_reaches_the_model_in_its_own_words(server: Server) -> None:
    server.answer(said({"decision": "deny", "reason": "not on a Friday", "interrupt": True}))
    assert await asked(WebhookApprover(server.url)) == Deny(reason="not on a Friday", interrupt=True)


async def test_a_later_answer_is_asked_for_until_it_is_there(server: Server) -> None:
    wait = (202, {"Location": "/answers/a1", "Retry-After": "0"}, b"")
    server.answer(wait, wait, wait, said({"decision": "approve"}))
    assert await asked(WebhookApprover(server.url, token="t0ken", pause=0.2)) == Approve()
    assert [(method, path) for method, path, _, _ in server.asked] == [
        ("POST", "/approve?team=x"),
        *[("GET", "/answers/a1")] * 3,
    ]
    assert all(headers["Authorization"] == "Bearer t0ken" for _, _, headers, _ in server.asked)


async def test_waiting_is_cancelled_with_the_run(server: Server) -> None:
    server.answer((202, {"Location": "/answers/a1"}, b""))
    with anyio.move_on_after(0.5) as scope:
        await WebhookApprover(server.url, pause=0.2)(APPROVAL)
    assert scope.cancelled_caught


@pytest.mark.parametrize(
    "location", ["", "https://evil.example/x", "//evil.example/x", "http://127.0.0.1:1/x", "/a\x01b", "answers"]
)
async def test_a_later_answer_comes_from_the_same_host(server: Server, location: str) -> None:
    server.answer((202, {"Location": location} if location else {}, b""))
    assert isinstance(await asked(WebhookApprover(server.url)), Deny)
    assert len(server.asked) == 1


YES = b'{"decision": "approve"}'
TROUBLE: dict[str, tuple[int, dict[str, str], bytes]] = {
    "no decision": (200, {}, b"{}"),
    "empty": (200, {}, b""),
    "text": (200, {}, b"yes"),
    "list": (200, {}, b"[" + YES + b"]"),
    "two": (200, {}, YES + YES),
    "unknown decision": (200, {}, b'{"decision": "allow"}'),
    "unknown field": (200, {}, b'{"decision": "approve", "forever": true}'),
    "wrong type": (200, {}, b'{"decision": "deny", "reason": 1}'),
    "created": (201, {}, YES),
    "no content": (204, {}, b""),
    "redirect": (302, {"Location": "/other"}, YES),
    "moved": (308, {"Location": "/other"}, YES),
    "forbidden": (403, {}, YES),
    "not found": (404, {}, YES),
    "error": (500, {}, YES),
    "too long": (200, {}, b" " * 1_100_000 + YES),
    "cut short": (200, {"Content-Length": "1000"}, YES),
    "no http": (0, {}, YES + b"\r\n\r\n"),
    "nothing": (0, {}, b""),
    "half a header": (0, {}, b"HTTP/1.1 200 OK\r\nContent-Le"),
    "two lengths": (0, {}, b"HTTP/1.1 200 OK\r\nContent-Length: 23\r\nContent-Length: 2\r\n\r\n" + YES),
}


@pytest.mark.parametrize("way", list(TROUBLE))
async def test_anything_but_a_decision_denies(server: Server, way: str) -> None:
    server.answer(TROUBLE[way])
    answer = await asked(WebhookApprover(server.url))
    assert isinstance(answer, Deny), way
    assert answer.reason.startswith("the approval could not be asked for: ")
    assert "team=x" not in answer.reason


async def test_a_server_that_says_nothing_denies_in_time(server: Server) -> None:
    free = threading.Event()

    def hang(*_: object) -> tuple[int, dict[str, str], bytes]:
        free.wait(20)
        return 200, {}, YES

    server.answer(hang)
    answer = await asked(WebhookApprover(server.url, timeout=0.3))
    free.set()
    assert isinstance(answer, Deny)
    assert "within 0.3 s" in answer.reason


async def test_nobody_there_denies(server: Server) -> None:
    url = server.url
    server.close()
    answer = await asked(WebhookApprover(url))
    assert isinstance(answer, Deny)
    assert "no connection" in answer.reason


async def test_a_server_without_a_trusted_certificate_denies(server: Server) -> None:
    server.answer(said({"decision": "approve"}))
    answer = await asked(WebhookApprover(server.url.replace("http://", "https://"), timeout=5))
    assert isinstance(answer, Deny)
    assert not server.asked


async def test_the_wait_for_a_later_answer_survives_a_broken_connection(server: Server) -> None:
    server.answer((202, {"Location": "/a"}, b""), (0, {}, b""), (0, {}, b""), said({"decision": "approve"}))
    assert await asked(WebhookApprover(server.url, pause=0.2)) == Approve()


@pytest.mark.parametrize(
    "url",
    ["", "ftp://a.example", "http://a.example/x", "https://user:pw@a.example", "https://a.example/a b", "https:///x"],
)
def test_addresses_that_would_show_approvals_to_others_are_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        WebhookApprover(url)


def test_a_context_that_verifies_nobody_is_refused() -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with pytest.raises(ConfigurationError, match="verifies nobody"):
        WebhookApprover("https://a.example", context=context)
