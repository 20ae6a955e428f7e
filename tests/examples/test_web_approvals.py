"""The page for approvals: three real agents wait on it, in a real browser; and nobody but the page may answer."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock import Permission, Request
from interlock_fixtures.scripted_agent.launcher import install

LIMIT = 60.0
NASTY = '<img src=x onerror="document.title=1"> \u202e \u0440'
LIST = {"tool": "Bash", "input": {"command": "ls"}}


@dataclass
class Served:
    """A page that is served: where, and what opens it."""

    url: str
    printed: str

    @property
    def port(self) -> int:
        return int(self.url.split("/")[2].split(":")[1])

    @property
    def token(self) -> str:
        return self.url.partition("#")[2]

    def ask(self, method: str, path: str, body: str | None = None, /, **headers: str) -> tuple[int, str]:
        """Status and text of an answer; a header `None` is left out by not naming it."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body, {"Host": f"127.0.0.1:{self.port}"} | named)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def own(self) -> dict[str, str]:
        """The headers with which the page asks."""
        return {"Authorization": f"Bearer {self.token}", "Origin": f"http://127.0.0.1:{self.port}"}


@contextmanager
def served(examples: Path, home: Path, *words: str, **more: str) -> Iterator[Served]:
    """The example as its README starts it, ended by a signal as a service manager does."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    env |= more
    command = [sys.executable, "-m", "web_approvals", "--offline", *words]
    with subprocess.Popen(command, cwd=examples, env=env, stdout=subprocess.PIPE, text=True) as process:
        watchdog = threading.Timer(LIMIT + 50, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            printed = ""
            while not printed.rpartition("\n")[0].rpartition("\n")[2].startswith("open "):
                line = process.stdout.readline()
                assert line, printed
                printed += line
            yield Served(printed.split("open ")[1].strip(), printed)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
            watchdog.cancel()
    assert process.returncode == 0
    assert list(home.glob("web-approvals-*")) == []


@pytest.fixture
def until() -> Callable[..., None]:
    """Waits in the browser until something holds."""

    def wait(browser, holds, what: str) -> None:
        from selenium.common.exceptions import TimeoutException  # noqa: PLC0415
        from selenium.webdriver.support.ui import WebDriverWait  # noqa: PLC0415

        try:
            WebDriverWait(browser, LIMIT, poll_frequency=0.1).until(holds)
        except TimeoutException:
            raise AssertionError(f"not so: {what}; the page says: {text_of(browser)}") from None

    return wait


def text_of(browser) -> str:
    return browser.execute_script("return document.body.innerText")


def cards(browser) -> dict[str, object]:
    """The approvals that wait, by agent."""
    return {card.get_attribute("data-agent"): card for card in browser.find_elements("css selector", ".approval")}


def start(browser, until, prompt: str, number: int) -> None:
    until(browser, lambda b: len(b.find_elements("css selector", "#agents input")) == 3, "three agents are offered")
    browser.find_element("id", "prompt").send_keys(prompt)
    browser.find_element("css selector", "#start button").click()
    until(browser, lambda b: len(b.find_elements("css selector", ".approval")) == number, f"{number} approvals wait")


@pytest.mark.live
def test_three_real_agents_wait_on_the_page_and_are_answered(
    examples, home, tmp_path, browser, until, require_clis
) -> None:
    require_clis("claude", "codex", "copilot")
    work = tmp_path / "work"
    with served(examples, home, str(work)) as page:
        assert page.printed.count("the real CLI, offline") == 3
        browser.get(page.url)
        start(browser, until, "note that it was checked", 3)
        waiting = {agent: card.find_element("css selector", ".display").text for agent, card in cards(browser).items()}
        assert sorted(waiting) == ["claude", "codex", "copilot"]
        for agent, shown in waiting.items():
            assert f"printf 'checked by {agent}\\\\n' >> notes.txt" in shown
        assert browser.save_screenshot(os.environ.get("INTERLOCK_SCREENSHOT") or str(tmp_path / "waiting.png"))
        assert not list(work.glob("*/notes.txt"))

        browser.refresh()  # what waits is the server's, not the page's
        until(browser, lambda _: sorted(cards(browser)) == sorted(waiting), "the approvals are there after a reload")

        shown = cards(browser)
        shown["claude"].find_element("css selector", ".approve").click()
        shown["codex"].find_element("css selector", ".reason").send_keys("no notes today")
        shown["codex"].find_element("css selector", ".deny").click()
        shown["copilot"].find_element("css selector", "summary").click()
        edited = shown["copilot"].find_element("css selector", ".input")
        given = edited.get_property("value")
        edited.clear()
        edited.send_keys(given.replace("checked by copilot", "checked by me"))
        button = shown["copilot"].find_element("css selector", ".approve")
        assert button.text == "Approve as edited"
        button.click()
        until(
            browser,
            lambda b: [e.text for e in b.find_elements("css selector", ".status")] == ["completed"] * 3,
            "all three runs are over",
        )
        assert cards(browser) == {}
        said = text_of(browser)
        assert [element.text for element in browser.find_elements("css selector", ".cancel")] == [""] * 3
    assert {path.parent.name: path.read_text() for path in work.glob("*/notes.txt")} == {
        "work-of-claude": "checked by claude\n",
        "work-of-copilot": "checked by me\n",
    }
    assert "no notes today" in said
    assert said.count("denied by interceptor 'push-guard'") == 3


@pytest.fixture
def page_of(examples, tmp_path, home, monkeypatch) -> Callable[[dict[str, object]], Iterator[Served]]:
    """Serves the page in this process, with one scripted agent that wants to run a command."""
    monkeypatch.syspath_prepend(str(examples))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)

    @contextmanager
    def serve(call: dict[str, object]) -> Iterator[Served]:
        import socket  # noqa: PLC0415

        import uvicorn  # noqa: PLC0415
        from web_approvals.agents import Agent  # noqa: PLC0415
        from web_approvals.app import make_app  # noqa: PLC0415

        program = install(tmp_path, [[call, {"text": "done"}]])
        (tmp_path / "work").mkdir()

        @contextmanager
        def order(prompt: str) -> Iterator[Request]:
            ask = Permission(posture="none", otherwise="ask")
            yield Request(
                agent="claude", prompt=prompt, cwd=str(tmp_path / "work"), binary=str(program), permission=ask
            )

        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
            agents = [Agent(name, "", order) for name in ("claude", "codex", "copilot")]
            app = make_app(agents, origin=origin, token="the-token")
            server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, ws="none"))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
            thread.start()
            try:
                yield Served(f"{origin}/#the-token", "")
            finally:
                server.should_exit = True
                thread.join(30)
                assert not thread.is_alive()

    return serve


def test_what_an_agent_says_is_text_and_never_markup(page_of, browser, until) -> None:
    with page_of({"tool": "Write", "input": {"file_path": "x.html", "content": NASTY}}) as page:
        browser.get(page.url)
        start(browser, until, "<b id=planted>go</b>", 3)
        shown = cards(browser)["claude"].find_element("css selector", ".display").text
        assert "<img src=x onerror=" in shown
        assert "\\u202e" in shown
        assert browser.find_elements("css selector", "img, #planted") == []
        assert browser.title == "Approvals"
        assert "<b id=planted>go</b>" in text_of(browser)


def test_a_page_without_the_token_shows_nothing(page_of, browser, until) -> None:
    with page_of(LIST) as page:
        browser.get(page.url.partition("#")[0])
        until(browser, lambda b: "the token is missing or wrong" in text_of(b), "it says why")
        assert browser.find_elements("css selector", "#agents input") == []


def test_only_the_page_itself_is_served(page_of) -> None:
    with page_of(LIST) as page:
        own = page.own()
        assert page.ask("GET", "/")[0] == 200
        assert page.ask("GET", "/state", **own)[0] == 200
        assert page.ask("GET", "/state")[0] == 403
        assert page.ask("GET", "/state", Authorization="Bearer the-tokem")[0] == 403
        assert page.ask("GET", "/", Host="evil.example")[0] == 403
        assert page.ask("GET", "/state", **own, Host=f"localhost:{page.port}")[0] == 403
        assert page.ask("GET", "/state", **own, Host="127.0.0.1")[0] == 403
        wanted = json.dumps({"agent": "claude", "prompt": "go"})
        bearer = {"Authorization": own["Authorization"]}
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{page.port + 1}"):
            assert page.ask("POST", "/runs", wanted, **bearer, Origin=origin)[0] == 403
        assert page.ask("POST", "/runs", wanted, **bearer)[0] == 403
        assert page.ask("POST", "/runs", wanted, Origin=own["Origin"])[0] == 403
        assert page.ask("POST", "/runs", wanted, **own, Sec_Fetch_Site="cross-site")[0] == 403
        assert json.loads(page.ask("GET", "/state", **own)[1])["runs"] == []


def waiting_of(page: Served, number: int) -> list[dict[str, object]]:
    """The approvals, once there are so many; the server is asked again and again, as the page does."""
    gate = threading.Event()
    for _ in range(int(LIMIT / 0.05)):
        found = json.loads(page.ask("GET", "/state", **page.own())[1])
        if len(found["approvals"]) == number:
            return found["approvals"]
        gate.wait(0.05)
    raise AssertionError(found)


def test_an_answer_that_cannot_be_read_answers_nothing(page_of) -> None:
    with page_of(LIST) as page:
        own = page.own()
        assert page.ask("POST", "/runs", '{"agent": "nobody", "prompt": "go"}', **own)[0] == 422
        assert page.ask("POST", "/runs", '{"agent": "claude", "prompt": "go"}', **own)[0] == 200
        approval = waiting_of(page, 1)[0]
        path = f"/approvals/{approval['id']}"
        for wrong in ("", "{}", "yes", '{"decision": "allow"}', '{"decision": "approve", "updated_input": 3}'):
            assert page.ask("POST", path, wrong, **own)[0] == 422
        assert waiting_of(page, 1)[0]["id"] == approval["id"]
        assert page.ask("POST", "/approvals/unknown", '{"decision": "approve"}', **own)[0] == 409
        assert page.ask("POST", path, '{"decision": "deny"}', **own)[0] == 204
        assert page.ask("POST", path, '{"decision": "approve"}', **own)[0] == 409


def test_a_run_is_ended_from_the_page_and_what_it_asked_is_gone(page_of) -> None:
    with page_of(LIST) as page:
        page.ask("POST", "/runs", '{"agent": "claude", "prompt": "go"}', **page.own())
        waiting_of(page, 1)
        assert page.ask("POST", "/runs/0/cancel", "", **page.own())[0] == 204
        assert page.ask("POST", "/runs/7/cancel", "", **page.own())[0] == 404
        assert waiting_of(page, 0) == []
        assert "cancelled" in json.loads(page.ask("GET", "/state", **page.own())[1])["runs"][0]["status"]


def test_the_server_listens_on_loopback_alone(examples, home) -> None:
    with served(examples, home) as page:
        table = Path("/proc/net/tcp")
        if not table.exists():
            pytest.skip("only Linux lists who listens in /proc")
        listening = [line.split()[1] for line in table.read_text().splitlines()[1:] if line.split()[3] == "0A"]
        assert [address for address in listening if address.endswith(f":{page.port:04X}")] == [
            f"0100007F:{page.port:04X}"
        ]


def test_where_no_cli_is_installed_the_scripted_agent_stands_in_and_the_page_says_so(examples, home) -> None:
    with served(examples, home, INTERLOCK_CLIS=str(home), PATH="/usr/bin:/bin") as page:
        assert page.printed.count("not installed: a scripted agent stands in") == 3
        for agent in ("claude", "codex", "copilot"):
            body = json.dumps({"agent": agent, "prompt": "go"})
            assert page.ask("POST", "/runs", body, **page.own())[0] == 200
        waiting = waiting_of(page, 3)
        assert sorted(str(one["agent"]) for one in waiting) == ["claude", "codex", "copilot"]
