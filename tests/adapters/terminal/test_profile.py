"""Profiles: what is wrong with one is said with field, value and way out; what one says decides what can be asked."""

import pytest

from interlock.adapter import Adapter, Host, Order
from interlock.capabilities import Needs, check
from interlock.engine.registry import find_adapter, known_agents
from interlock.errors import ConfigurationError, UnknownAgent
from interlock.permission import Backstop, Permission
from interlock.request import Request
from interlock.tools import ToolCall, ToolKind
from interlock_adapters.terminal.adapter import TerminalAdapter
from interlock_adapters.terminal.profile import parse


def adapter(text: str, folder: str | None = None) -> TerminalAdapter:
    return TerminalAdapter(parse(text, "test.toml"), "test.toml", folder)


def order(**fields: object) -> Order:
    request = Request.model_validate({"agent": "terminal:tool", "prompt": "go", "cwd": "/work space/repo", **fields})
    host = Host("/home/x", {}, "/bin/tool", "/bin", "linux", root=False)
    return Order("run-1", request, Needs(answered=True), host, Backstop.NONE, 60.0, hooks=True)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "tool"', "name = 'a b'", "name = 'a b': String should match"),
        (
            'by = "arguments"',
            'by = "telepathy"',
            "prompt.by = 'telepathy': Input should be 'arguments', 'file' or 'keys'",
        ),
        ('by = "arguments", ', 'by = "keys", ', "prompt: a prompt that is typed needs `ready`"),
        ('arguments = ["{prompt}"]', 'arguments = ["-p"]', "`arguments` must hold {prompt}"),
        ('"^bye$"', '"^(bye$"', "ends.marker = '^(bye$': is no regular expression"),
        ("marker =", "end =", "ends.end is no field; fields here: statuses, quit, file, marker"),
        ('yes = "y\\n"', "", "question.0: a question needs `kinds`, `yes` and `no`, or `always`"),
        ('kinds = ["shell"]', 'kinds = ["write"]', "needs a group (?P<path>...)"),
        ('kinds = ["shell"]', 'kinds = ["mcp"]', "needs another kind: unknown"),
        ('kinds = ["shell"]', 'kinds = ["shell"]\nexact = false', 'has kinds = ["unknown"]'),
        ('programs = ["tool"]', "programs = []", "programs = []: Tuple should have at least 1 item"),
        ('programs = ["tool"]', "", "programs is missing"),
        ('name = "tool"', 'name = "tool', "is no TOML"),
        ("noise = [", 'files = { "../x" = "" }\nnoise = [', "files: '../x' is no path below the run's private folder"),
    ],
)
def test_what_is_wrong_is_said_with_field_and_value(profile_text, old, new, said):
    assert old in profile_text
    with pytest.raises(ConfigurationError) as raised:
        parse(profile_text.replace(old, new, 1), "test.toml")
    assert str(raised.value).startswith("test.toml: ")
    assert said in str(raised.value)


def test_questions_of_one_name_are_refused(profile_text):
    with pytest.raises(ConfigurationError, match="the name 'news' is there twice"):
        parse(profile_text.replace('name = "run"', 'name = "news"'), "test.toml")


# ---- what can be asked ----------------------------------------------------------------------------------------------


def test_capabilities_are_what_the_questions_show_and_nothing_more(profile_text):
    can = adapter(profile_text).transports[0].capabilities
    assert (can.asks, can.sees_before, can.sees_after) == (True, "asked", "none")
    assert can.deny == {ToolKind.SHELL, ToolKind.READ, ToolKind.EDIT}
    assert not can.modify
    assert not can.replace
    assert can.tamperable
    assert can.backstops == (Backstop.NONE,)
    assert set(can.otherwise) == {"deny", "ask"}


def test_an_agent_that_asks_nothing_cannot_be_asked(profile_text):
    silent = adapter(profile_text.partition("[[question]]")[0]).transports[0].capabilities
    assert (silent.asks, silent.sees_before) == (False, "none")
    asked = order(permission=Permission(otherwise="ask"))
    assert "permission.otherwise" in {unmet.field for unmet in check(asked.request, asked.needs, silent)}


def test_a_chain_needs_more_than_a_screen_shows(profile_text):
    can = adapter(profile_text).transports[0].capabilities
    needs = Needs(chain_before=True, chain_after=True, modify=True, replace=True)
    said = {unmet.value for unmet in check(order().request, needs, can)}
    assert {"pre_tool_use", "post_tool_use", "modify", "replace"} <= said


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"extra_args": ["--yes-always"]}, "extra_args"),
        ({"model": "m"}, "model"),
        ({"permission": Permission(posture="none")}, "permission.posture"),
        ({"permission": Permission(posture="edit", deny=["read(**/.env)"])}, "permission.deny"),
        ({"permission": Permission(posture="edit", deny=["search"])}, "permission.deny"),
        ({"permission": Permission(posture="edit", deny=["*"])}, "permission.deny"),
    ],
)
def test_what_the_profile_cannot_keep_is_unsupported(profile_text, fields, field):
    unasked = profile_text.replace("noise =", 'unasked = ["read", "search"]\nnoise =')
    transport = adapter(unasked).transports[0]
    unmet = transport.check(order(**fields))
    assert [one.field for one in unmet] == [field]
    assert unmet[0].alternatives
    assert transport.check(order(permission=Permission(posture="read", deny=["shell(rm:*)"]))) == ()


def test_what_cannot_be_typed_is_unsupported():
    typed = """
name = "typed"
programs = ["typed"]
prompt = { by = "keys", ready = "> $", end = "\\n" }
"""
    transport = adapter(typed).transports[0]
    for prompt in ("two\nlines", "a\x03b", "a\x1b[201~"):
        assert [one.field for one in transport.check(order(prompt=prompt))] == ["prompt"]
    pasted = typed.replace('ready = "> $",', 'ready = "> $", newline = "\\u001b\\r",')
    assert adapter(pasted).transports[0].check(order(prompt="two\nlines")) == ()


def test_a_profile_that_the_agent_could_change_is_refused_unless_it_was_named(profile_text):
    found = adapter(profile_text, "/work space/repo/.config/interlock/terminal")
    (unmet,) = found.transports[0].check(order())
    assert unmet.field == "cwd"
    assert adapter(profile_text, "/work space/repository").transports[0].check(order()) == ()


def test_a_launch_is_deterministic_and_takes_the_prompt_literally(profile_text):
    transport = adapter(profile_text).transports[0]
    asked = order(prompt="say {home} and {state}")
    launch = transport.launch(asked)
    assert launch == transport.launch(asked)
    assert [(arg.text, arg.sensitivity, arg.template) for arg in launch.argv] == [
        ("/bin/tool", "public", False),
        ("say {home} and {state}", "prompt", False),
    ]
    assert launch.terminal is not None
    assert launch.compares
    by_file = (
        adapter(profile_text.replace('by = "arguments"', 'by = "file", begin = "\\n"')).transports[0].launch(asked)
    )
    (prompt,) = [file for file in by_file.files if file.sensitivity == "prompt"]
    assert (prompt.content, prompt.template) == ("\nsay {home} and {state}", False)
    assert (by_file.argv[-1].text, by_file.argv[-1].template) == ("{home}/prompt", True)


def test_a_call_is_described_by_its_question(profile_text):
    call = ToolCall(tool_call_id="1", tool_name="run", input={"command": "git push"})
    described = adapter(profile_text).describe(call)
    assert (described.tool_kind, described.subject.command) == (ToolKind.SHELL, "git push")
    other = adapter(profile_text).describe(replace_input(call, ["git push"]))
    assert (other.tool_kind, other.subject.command) == (ToolKind.SHELL, None)


def replace_input(call: ToolCall, given: object) -> ToolCall:
    return call.model_copy(update={"input": given})


# ---- where profiles are found ---------------------------------------------------------------------------------------


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "interlock" / "terminal"
    folder.mkdir(parents=True)
    return folder


def test_the_shipped_one_is_found_by_name(mine):
    assert "terminal:aider" in known_agents()
    aider = find_adapter("terminal:aider")
    assert isinstance(aider, Adapter)
    assert aider.name == "terminal:aider"


def test_ones_own_is_found_by_name_or_path(mine, profile_text, tmp_path):
    (mine / "tool.toml").write_text(profile_text, "utf-8")
    assert "terminal:tool" in known_agents()
    assert find_adapter("terminal:tool").folder == str(mine)
    named = tmp_path / "other.toml"
    named.write_text(profile_text, "utf-8")
    assert find_adapter(f"terminal:{named}").folder is None


def test_one_in_the_working_directory_is_never_found_by_name(mine, profile_text, tmp_path, monkeypatch):
    (tmp_path / "tool.toml").write_text(profile_text, "utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownAgent):
        find_adapter("terminal:tool")
    assert find_adapter("terminal:./tool.toml").name == "terminal:tool"


def test_a_name_that_is_there_twice_is_an_error(mine, profile_text):
    (mine / "aider.toml").write_text(profile_text, "utf-8")
    with pytest.raises(ConfigurationError, match="give your own another name"):
        find_adapter("terminal:aider")


def test_none_passes_for_one_that_comes_with_the_package(mine, profile_text, tmp_path):
    named = tmp_path / "other.toml"
    named.write_text(profile_text.replace('"tool"', '"aider"', 1), "utf-8")
    with pytest.raises(ConfigurationError, match="a name of its own"):
        find_adapter(f"terminal:{named}")
    (mine / "mine.toml").write_text(profile_text.replace('"tool"', '"aider"', 1), "utf-8")
    with pytest.raises(ConfigurationError, match="a name of its own"):
        find_adapter("terminal:mine")


@pytest.mark.parametrize("name", ["terminal", "terminal:", "terminal:nothing", "claude:x", "terminal:..", "nothing:x"])
def test_what_is_no_agent_is_unknown(mine, name):
    with pytest.raises(UnknownAgent):
        find_adapter(name)


@pytest.mark.parametrize("name", ["/nowhere/x.toml", "/dev/zero", "/"])
def test_a_path_that_cannot_be_read_says_so(mine, name):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        find_adapter(f"terminal:{name}")
