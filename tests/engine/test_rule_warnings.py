"""A plan says which rules bind less, or allow more, than they seem to."""

import pytest

from interlock.engine.rule_warnings import warnings
from interlock.permission import Otherwise, Permission, Posture


@pytest.mark.parametrize(
    ("permission", "said"),
    [
        (Permission(deny=("read(**/.env)",), allow=("shell(cat:*)",)), "cannot bind what a command opens"),
        (Permission(deny=("write(db/**)",), posture=Posture.FULL), "posture full runs every command"),
        (Permission(deny=("read(.env)",), otherwise=Otherwise.ASK), "`otherwise` is ask"),
        (Permission(deny=("fetch(example.com)",), allow=("shell(curl:*)",)), "cannot bind what a command fetches"),
        (Permission(deny=("shell(rm:*)",), allow=("shell(python:*)",)), "does not see what runs inside"),
        (Permission(deny=("shell(git:*)",), allow=("shell(git status)",)), "never matters"),
        (Permission(deny=("shell",), allow=("shell(git status:*)",)), "never matters"),
        (Permission(deny=("*",), allow=("read(/etc/hosts)",)), "never matters"),
        (Permission(deny=("edit(src/**)",), allow=("write(src/a.py)",)), "never matters"),
        (Permission(allow=("read(docs/**)",)), "adds nothing: posture read"),
        (Permission(allow=("write(src/**)",), posture=Posture.EDIT), "adds nothing: posture edit"),
        (Permission(allow=("shell(ls)",), posture=Posture.FULL), "adds nothing: posture full"),
        (Permission(allow=("internal",)), "internal to the agent"),
        (Permission(allow=("agent(Explore)",)), "adds nothing"),
        (Permission(allow=("shell(make:*)",)), "any code"),
    ],
)
def test_a_rule_that_seems_to_say_more_than_it_does_is_warned_about(permission: Permission, said: str) -> None:
    found = warnings(permission)
    assert any(said in warning for warning in found), found
    assert all(rule in " ".join(found) for rule in (*permission.allow, *permission.deny)[:1])


@pytest.mark.parametrize(
    "permission",
    [
        Permission(),
        Permission(deny=("read(**/.env)", "fetch(example.com)", "shell(rm:*)")),
        Permission(allow=("shell(git status)", "shell(pytest -q)", "mcp(github/*)", "fetch(example.com)")),
        Permission(allow=("read(/etc/hosts)", "write(src/**)")),
        Permission(allow=("write(.github/**)",), posture=Posture.EDIT),
        Permission(allow=("shell(git status:*)",), deny=("shell(git push:*)",)),
        Permission(allow=("read",), deny=("search",)),
    ],
)
def test_rules_that_mean_what_they_say_are_not_warned_about(permission: Permission) -> None:
    assert warnings(permission) == ()


def test_a_sandbox_does_not_know_the_rules() -> None:
    permission = Permission(deny=("read(**/.env)",))
    assert warnings(permission) == ()
    assert "knows no rules" in warnings(permission, confined=True)[0]


def test_nothing_is_said_twice() -> None:
    permission = Permission(allow=("shell(make:*)", "shell(make:*)"))
    assert len(warnings(permission)) == len(set(warnings(permission)))
