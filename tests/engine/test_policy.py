"""How layers of policies become one permission: what adds up, what bounds, and that nothing loosens what was fixed."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.chain import Chain
from interlock.engine.gate import Finding
from interlock.engine.judge import Judge
from interlock.engine.places import Place
from interlock.engine.rules import Rules
from interlock.errors import ConfigurationError
from interlock.hooks import HookSpec
from interlock.permission import Backstop, Otherwise, Permission, Posture
from interlock.policy import (
    Bounds,
    Effective,
    Layer,
    Policy,
    PolicyLimits,
    PolicyPart,
    PolicyPermission,
    combine,
)
from interlock.request import Limits
from interlock.rule_order import within
from interlock.tools import Subject, ToolCall, ToolKind


def layer(source: str = "later", *, binds: bool = False, **part: Any) -> Layer:
    """A layer out of plain values; `bounds`, `limits` and `agents` as they are, the rest is its permission."""
    more = {name: part.pop(name) for name in ("bounds", "limits", "agents", "hooks") if name in part}
    return Layer(source, Policy.model_validate({"permission": part, **more}), binds=binds)


def admin(**part: Any) -> Layer:
    return layer("the administrator", binds=True, **part)


def combined(*layers: Layer, **permission: Any) -> Effective:
    return combine(layers, agent="claude", permission=Permission.model_validate(permission))


def refused(*layers: Layer, **permission: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        combined(*layers, **permission)
    return str(caught.value)


# ---- What adds up, and who is heard ---------------------------------------------------------------------------------


def test_without_layers_the_request_stands_as_it_is() -> None:
    own = Permission(posture="edit", allow=["fetch"], network=True)
    found = combine((), agent="claude", permission=own, limits=Limits(idle=None))
    assert (found.permission, found.limits) == (own, Limits(idle=None))


def test_deny_rules_of_all_layers_unite_and_allow_rules_add_up() -> None:
    found = combined(admin(deny=["mcp"]), layer(allow=["fetch"], deny=["mcp", "agent"]), deny=["shell"], allow=["read"])
    assert found.permission.deny == ("mcp", "agent", "shell")
    assert found.permission.allow == ("fetch", "read")
    assert [(rule.value, rule.source) for rule in found.deny][:2] == [("mcp", "the administrator"), ("mcp", "later")]


def test_the_last_layer_that_says_something_is_heard_and_a_default_says_nothing() -> None:
    found = combined(layer(posture="edit", otherwise="ask"), layer("last", posture="read"))
    assert (found.permission.posture, found.permission.otherwise) == (Posture.READ, Otherwise.ASK)
    assert found.origins == {"posture": "last", "otherwise": "later"}
    assert combined(layer(posture="edit"), posture="full").permission.posture is Posture.FULL
    assert combined(layer(backstop="gate"), backstop="any").permission.backstop is Backstop.GATE


def test_of_limits_the_smallest_holds_and_a_default_is_no_word() -> None:
    layers = [admin(limits={"total": 600, "idle": 1800}), layer(limits={"total": 60, "unreplaceable": "refuse"})]
    found = combine(layers, agent="claude", limits=Limits(total=None, max_turns=3)).limits
    assert (found.total, found.idle, found.max_turns, found.unreplaceable) == (60, 1800, 3, "refuse")
    assert combine(layers, agent="claude", limits=Limits(total=5, idle=None)).limits.total == 5


def test_policies_know_every_limit_of_a_run() -> None:
    assert set(PolicyLimits.model_fields) == set(Limits.model_fields)
    assert set(PolicyPermission.model_fields) == set(Permission.model_fields)


def test_an_agents_part_overrides_field_by_field_and_adds_rules_and_hooks() -> None:
    guard, own = HookSpec(name="guard", command=("a",)), HookSpec(name="own", command=("b",))
    part = PolicyPart(
        permission=PolicyPermission(posture=Posture.READ, deny=("mcp",)),
        bounds=Bounds(allow=()),
        limits=PolicyLimits(total=5),
        hooks=(own,),
    )
    base = PolicyPermission(posture=Posture.EDIT, otherwise=Otherwise.ASK, deny=("fetch",))
    policy = Policy(permission=base, bounds=Bounds(allow=("fetch",)), hooks=(guard,), agents={"claude": part})
    claudes = policy.part("claude")
    assert claudes.permission == base.model_copy(update={"posture": Posture.READ, "deny": ("fetch", "mcp")})
    assert (claudes.bounds.allow, claudes.limits.total, claudes.hooks) == ((), 5, (guard, own))
    assert policy.part("codex") == policy
    assert Policy.parse_json(policy.to_json()) == policy


# ---- Bounds ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "more", "words"),
    [
        ({"posture": "edit"}, {"posture": "full"}, ("posture full", "at most edit")),
        ({"otherwise": "ask"}, {"otherwise": "agent"}, ("otherwise agent", "ask or deny")),
        ({"posture": "edit"}, {"otherwise": "ask"}, ("otherwise ask", "deny")),
        ({"posture": "edit"}, {"allow": ["fetch"]}, ("allow rule 'fetch'", "none open")),
        ({"posture": "edit"}, {"writable": ["/x"]}, ("writable folder '/x'",)),
        ({"backstop": "gate"}, {"backstop": "flags"}, ("backstop flags", "gate")),
        ({"network": False}, {"network": True}, ("network true",)),
        ({"writable": ["/var/x"]}, {"writable": ["/var/xy"]}, ("'/var/xy'", "'/var/x'")),
        ({"writable": ["/var/x"]}, {"writable": ["/var/x/../y"]}, ("'/var/x/../y'",)),
        ({"bounds": {"allow": ["shell(git:*)"]}}, {"allow": ["shell(gitx)"]}, ("'shell(gitx)'", "'shell(git:*)'")),
    ],
)
def test_what_goes_beyond_the_administrator_is_refused_and_named(
    said: dict[str, Any], more: dict[str, Any], words: tuple[str, ...]
) -> None:
    for text in (refused(admin(**said), layer(**more)), refused(admin(**said), **more)):
        assert all(word in text for word in ("the administrator", *words))


def test_the_same_values_of_another_layer_are_only_what_it_gives() -> None:
    found = combined(layer(posture="none", otherwise="deny", network=False), posture="full", allow=["*"], network=True)
    assert (found.permission.posture, found.permission.allow, found.permission.network) == (Posture.FULL, ("*",), True)
    assert "at most none" in refused(layer(bounds={"posture": "none"}), posture="read")


def test_bounds_leave_room_where_they_say_so() -> None:
    room = {"posture": "full", "otherwise": ["ask"], "allow": ["shell(git:*)"], "writable": ["/var"]}
    fixed = admin(posture="read", allow=["fetch"], bounds=room)
    found = combined(fixed, posture="full", otherwise="ask", allow=["shell(git push:*)", "fetch"], writable=["/var/x"])
    assert (found.permission.posture, found.permission.otherwise) == (Posture.FULL, Otherwise.ASK)
    assert combined(fixed).permission.posture is Posture.READ


def test_a_later_layer_may_tighten_whatever_an_earlier_one_gave() -> None:
    found = combined(admin(posture="edit", otherwise="ask"), posture="none", otherwise="deny", deny=["*"])
    assert (found.permission.posture, found.permission.otherwise) == (Posture.NONE, Otherwise.DENY)
    narrowed = combined(layer(posture="full", otherwise="agent"), layer("last", bounds={"posture": "read"}))
    assert (narrowed.permission.posture, narrowed.permission.otherwise) == (Posture.READ, Otherwise.DENY)
    assert narrowed.origins["posture"] == "last"


def test_bounds_hold_where_nobody_says_anything() -> None:
    found = combined(admin(bounds={"posture": "none", "network": False, "backstop": "gate"}))
    assert (found.permission.posture, found.permission.network) == (Posture.NONE, False)
    assert found.permission.backstop is Backstop.GATE


def test_a_layer_beyond_its_own_bounds_contradicts_itself() -> None:
    assert "that it sets itself" in refused(layer(posture="full", bounds={"posture": "read"}))


def test_the_power_to_grant_stays_with_the_administrator_unless_given_away() -> None:
    assert combined(admin(otherwise="chain")).grants_kept_by == "the administrator"
    assert combined(admin(otherwise="chain", bounds={"grant": True})).grants_kept_by is None
    assert combined(layer(otherwise="chain")).grants_kept_by is None


def test_what_may_still_be_said_can_be_asked() -> None:
    found = combined(admin(posture="edit", bounds={"allow": ["fetch"]}))
    assert found.objections(allow=("fetch(example.com)",), posture=Posture.READ) == ()
    assert len(found.objections(allow=("mcp",), posture=Posture.FULL)) == 2


# ---- Rules within rules ---------------------------------------------------------------------------------------------

RULES = """
    * shell shell(*) shell(git) shell(git:*) shell(git_push) shell(git_push:*) shell(git_push_*) shell(git_push_origin)
    shell(gitx) shell('git'_push) shell(pytest:*) read read(**) read(docs/**) read(docs/) read(docs) read(docs/a.md)
    read(docs/*/b) read(./docs/a.md) read(/ws/docs/**) read(/etc/**) read(~/x) search search(docs/**) write edit
    write(src/**) edit(src/a.py) write(src/*.py) patch mcp mcp(github) mcp(github/*) mcp(github/get) mcp(git*/get)
    mcp(github2/*) fetch fetch(example.com) fetch(*.example.com) agent agent(Explore*) unknown internal
"""
ALL_RULES = [word.replace("_", " ") for word in RULES.split()]
PLACE = Place("/ws", "/home/me", ("/ws",), ("/ws",), lambda path: path)


def call(kind: str, name: str = "T", **subject: Any) -> ToolCall:
    return ToolCall(tool_call_id="1", tool_name=name, input={}, tool_kind=ToolKind(kind), subject=Subject(**subject))


COMMANDS = (
    "git",
    "git push",
    "git push origin",
    "git  push",
    "gitx",
    "pytest -q",
    "git push; ls",
    "ls",
    "cat docs/a.md",
)
PATHS = ("docs", "docs/a.md", "docs/x/b", "docs/../src/a.py", "src/a.py", "src/b/c.py", "/etc/passwd", "~/x", ".env")
CALLS = [
    *(call("shell", command=command) for command in COMMANDS),
    *(call(kind, paths=(path,)) for kind in ("read", "search", "edit", "write", "patch") for path in PATHS),
    call("patch", paths=("src/a.py", "docs/a.md")),
    *(call("mcp", mcp=tool) for tool in ("github/get", "github/put", "github2/get", "x/get")),
    *(call("fetch", urls=(url,)) for url in ("https://example.com/", "https://a.example.com", "http://b.c", "x")),
    call("shell_input", command="y"),
    call("agent", "Explore"),
    call("unknown"),
    call("internal"),
]


FEW_CALLS = [CALLS[1], call("write", paths=("src/a.py",)), call("mcp", mcp="github/get"), call("unknown")]


def test_a_rule_within_another_matches_nothing_that_the_other_does_not() -> None:
    inside = [(rule, room) for rule in ALL_RULES for room in ALL_RULES if within(rule, room)]
    assert len(inside) > 120
    for rule, room in inside:
        narrow, wide = Rules([rule], "allow", PLACE), Rules([room], "allow", PLACE)
        for one in CALLS:
            assert narrow.match(one) is None or wide.match(one) is not None, (rule, room, one)


@pytest.mark.parametrize(
    ("rule", "room"),
    [
        ("shell(git push origin)", "shell(git push:*)"),
        ("shell(git push -f:*)", "shell(git push *)"),
        ("edit(src/a.py)", "write(src/**)"),
        ("search(docs/x)", "read(docs/**)"),
        ("mcp(github/get)", "mcp(github)"),
        ("fetch(example.com)", "fetch"),
    ],
)
def test_what_plainly_lies_within_a_rule_is_seen(rule: str, room: str) -> None:
    assert within(rule, room)
    assert not within(room, rule)


@pytest.mark.parametrize(
    ("rule", "room"),
    [
        ("shell(git pushx)", "shell(git push:*)"),
        ("shell", "shell(git:*)"),
        ("read(docs/../x)", "read(docs/**)"),
        ("read(/ws/docs/a)", "read(docs/**)"),
        ("read(docs2/a)", "read(docs/**)"),
        ("mcp(github2/x)", "mcp(github/*)"),
        ("mcp(git*/x)", "mcp(github/*)"),
        ("read", "search"),
        ("*", "shell"),
    ],
)
def test_what_may_lie_outside_a_rule_is_refused(rule: str, room: str) -> None:
    assert not within(rule, room)


# ---- The property ---------------------------------------------------------------------------------------------------

rules = st.lists(st.sampled_from(ALL_RULES), max_size=3, unique=True)
postures, rest = st.sampled_from(list(Posture)), st.sampled_from(list(Otherwise))
permissions = st.fixed_dictionaries(
    {}, optional={"posture": postures, "otherwise": rest, "allow": rules, "deny": rules}
)
bounds = st.fixed_dictionaries(
    {}, optional={"posture": postures, "otherwise": st.lists(rest, max_size=3), "allow": rules}
)
parts = st.builds(lambda said, bound: {**said, "bounds": bound}, permissions, bounds)


def finding(permission: Permission, one: ToolCall) -> Finding:
    judge = Judge(
        run_id="r",
        agent="claude",
        permission=permission,
        workspace="/ws",
        add_dirs=(),
        chain=Chain(()),
        describe=lambda same: same,
        confined=False,
        home="/home/me",
    )
    return judge.look(one).finding


def ceilings(alone: Effective) -> list[Permission]:
    """The loosest that the administrator's layer leaves open."""
    (room,) = alone.rooms
    posture = room.posture or Posture.FULL
    allow = ("*",) if room.allow is None else (*room.allow, *alone.permission.allow)
    words = room.otherwise if room.otherwise is not None else frozenset(Otherwise)
    base = alone.permission.model_copy(update={"posture": posture, "allow": allow})
    return [base.model_copy(update={"otherwise": word}) for word in words]


@settings(deadline=None, max_examples=150)
@given(parts, st.lists(parts, max_size=2), permissions, st.sampled_from(CALLS))
def test_no_later_layer_lets_run_what_the_administrators_alone_denies(
    fixed: dict[str, Any], later: list[dict[str, Any]], own: dict[str, Any], one: ToolCall
) -> None:
    try:
        alone = combined(admin(**fixed))
        found = combined(admin(**fixed), *(layer(**part) for part in later), **own)
    except ConfigurationError:
        return
    if all(finding(loosest, one).result == "deny" for loosest in ceilings(alone)):
        assert finding(found.permission, one).result == "deny"


@settings(deadline=None, max_examples=100)
@given(permissions, postures, st.lists(parts, max_size=1), permissions)
def test_an_administrator_who_fixes_the_posture_without_bounds_has_said_it_all(
    fixed: dict[str, Any], posture: Posture, later: list[dict[str, Any]], own: dict[str, Any]
) -> None:
    fixed = {**fixed, "posture": posture}
    alone = combined(admin(**fixed))
    try:
        found = combined(admin(**fixed), *(layer(**part) for part in later), **own)
    except ConfigurationError:
        return
    for one in FEW_CALLS:
        if finding(alone.permission, one).result == "deny":
            assert finding(found.permission, one).result == "deny"
