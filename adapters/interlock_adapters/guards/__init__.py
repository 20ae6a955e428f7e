"""Participants that many want at once: give them to `Client(interceptors=[...])`, the webhook as its `approver`.

What each of them sees, and what it cannot see, stands in `docs/guards.md`.
"""

from importlib import import_module

TYPE_CHECKING = False

if TYPE_CHECKING:
    from interlock_adapters.guards.confinement import WorkspaceConfinement
    from interlock_adapters.guards.host_list import HostAllowList
    from interlock_adapters.guards.pushes import PushGuard
    from interlock_adapters.guards.redactor import SecretRedactor
    from interlock_adapters.guards.webhook import WebhookApprover

__all__ = ["HostAllowList", "PushGuard", "SecretRedactor", "WebhookApprover", "WorkspaceConfinement"]

_HOMES = {
    "HostAllowList": "host_list",
    "PushGuard": "pushes",
    "SecretRedactor": "redactor",
    "WebhookApprover": "webhook",
    "WorkspaceConfinement": "confinement",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
