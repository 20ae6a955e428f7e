"""Which sandbox a permission asks for, said on every turn and compared with what the agent says is in force.

The sandbox is the smallest in which everything can run that may be let run: what the posture covers, what a rule
allows, what a person or the chain may grant. Only where it is no wider than the posture itself does it enforce the
posture on commands, and only then is a command covered by it (`confines_posture`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, assert_never

from interlock.adapter import Order
from interlock.capabilities import Unmet
from interlock.model import JsonValue
from interlock.permission import Backstop, Otherwise, Permission, Posture
from interlock.tools import ToolKind

__all__ = ["approval_policy", "confines_posture", "mode", "policy", "settings", "unmet_sandbox"]

Mode = Literal["read-only", "workspace-write", "danger-full-access"]

_READING = frozenset({ToolKind.READ, ToolKind.SEARCH, ToolKind.INTERNAL, ToolKind.PLAN, ToolKind.QUESTION})


def mode(permission: Permission) -> Mode:
    """The sandbox in Codex' words."""
    match permission.posture:
        case Posture.FULL:
            return "danger-full-access"
        case Posture.EDIT:
            return "workspace-write"
        case Posture.READ | Posture.NONE:
            return "workspace-write" if _may_write(permission) else "read-only"
        case _:
            assert_never(permission.posture)


def confines_posture(permission: Permission) -> bool:
    """Whether the sandbox lets a command do no more than the posture says."""
    match permission.posture:
        case Posture.FULL:
            return False
        case Posture.EDIT:
            return True
        case Posture.READ | Posture.NONE:
            return mode(permission) == "read-only"
        case _:
            assert_never(permission.posture)


def policy(order: Order) -> dict[str, JsonValue]:
    """The sandbox as a turn is told, and as the agent reads it back."""
    permission = order.request.permission
    chosen = mode(permission)
    if chosen == "danger-full-access":
        return {"type": "dangerFullAccess"}
    if chosen == "read-only":
        return {"type": "readOnly", "networkAccess": False}
    return {
        "type": "workspaceWrite",
        "writableRoots": _roots(order),
        "networkAccess": permission.network is True,
        "excludeTmpdirEnvVar": False,
        "excludeSlashTmp": True,
    }


def settings(order: Order) -> dict[str, JsonValue]:
    """The same as configuration of a thread. `/tmp` is left out: a run has a temporary folder of its own."""
    if mode(order.request.permission) != "workspace-write":
        return {}
    return {
        "sandbox_workspace_write": {
            "writable_roots": _roots(order),
            "network_access": order.request.permission.network is True,
            "exclude_tmpdir_env_var": False,
            "exclude_slash_tmp": True,
        }
    }


def approval_policy(order: Order) -> str:
    """When the agent itself asks: to leave the sandbox, where there is one; under a gate, about every call."""
    if order.backstop is Backstop.GATE:
        return "untrusted"
    return "never" if mode(order.request.permission) == "danger-full-access" else "on-request"


def unmet_sandbox(order: Order) -> Iterator[Unmet]:
    """What no sandbox of Codex does."""
    permission = order.request.permission
    chosen = mode(permission)
    if permission.posture is Posture.FULL and permission.network is False:
        reason = "the posture `full` runs without a sandbox, which alone could keep commands off the network"
        yield Unmet(field="permission.network", value="False", reason=reason, alternatives=("posture=edit",))
    if chosen == "read-only" and permission.network is True:
        reason = "the read-only sandbox never lets commands reach the network"
        yield Unmet(field="permission.network", value="True", reason=reason, alternatives=("posture=edit",))
    if chosen == "read-only" and permission.writable:
        reason = "the read-only sandbox has no writable directories"
        value = str(permission.writable)
        yield Unmet(field="permission.writable", value=value, reason=reason, alternatives=("posture=edit",))
    if permission.posture is Posture.FULL and permission.backstop is Backstop.SANDBOX:
        reason = "the posture `full` runs without a sandbox"
        yield Unmet(field="permission.backstop", value="sandbox", reason=reason, alternatives=("posture=edit",))


def _roots(order: Order) -> list[JsonValue]:
    return [*order.request.add_dirs, *order.request.permission.writable]


def _may_write(permission: Permission) -> bool:
    if permission.otherwise is not Otherwise.DENY:
        return True
    return any(rule.partition("(")[0] not in _READING for rule in permission.allow)
