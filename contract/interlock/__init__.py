"""The contract for applications: every public name, loaded when it is first used.

`import interlock` alone builds no model and loads no dependency. An adapter imports the modules of the port themselves
(`interlock.adapter`, `interlock.actions`, `interlock.framing`): this module knows the engine, which it must not.
"""

from importlib import import_module

TYPE_CHECKING = False  # what type checkers take for true; importing `typing` would be most of the cost of this module

if TYPE_CHECKING:
    from interlock.approval import (
        Answer,
        Answerer,
        Approval,
        Approve,
        Approver,
        Choice,
        Decision,
        Deny,
        Question,
        QuestionItem,
        decision_adapter,
    )
    from interlock.batch.attempt import execute_attempt
    from interlock.batch.executor import AttemptLost, Executor, ExecutorGone
    from interlock.batch.futures import FuturesExecutor
    from interlock.batch.local import LocalExecutor
    from interlock.batch.opening import Batch, batch
    from interlock.batch.options import Budget, ChainNames, Retries
    from interlock.batch.results import BatchReport, BatchResult, Progress, RunStatus
    from interlock.batch.tasks import Copy, Given, Task, Worktree, matrix, read_tasks
    from interlock.batch.view import BatchView, read_batch
    from interlock.capabilities import Capabilities, Hole, Unmet
    from interlock.engine.client import Client
    from interlock.engine.plan import Plan
    from interlock.engine.run import Run
    from interlock.engine.shortcuts import plan, run, run_sync, stream
    from interlock.errors import (
        AgentError,
        BatchBusy,
        BatchError,
        ConfigurationError,
        ContractError,
        ExecutorFailed,
        InterlockError,
        JournalDamaged,
        JournalFailed,
        NotInstalled,
        NotOpen,
        RunEnded,
        RunFailed,
        SessionBusy,
        StartFailed,
        TasksChanged,
        UnknownAgent,
        Unsupported,
    )
    from interlock.events import (
        ApprovalRequested,
        ApprovalResolved,
        BaseEvent,
        Compacted,
        Event,
        FileChange,
        FilesChanged,
        Notice,
        PlanEntry,
        PlanUpdated,
        QuestionAsked,
        RateLimited,
        Raw,
        Retrying,
        RunFinished,
        RunStarted,
        SubagentFinished,
        SubagentStarted,
        Text,
        TextDelta,
        Thinking,
        ThinkingDelta,
        ToolDecided,
        ToolFinished,
        ToolOutput,
        ToolRequested,
        TurnFinished,
        Unguarded,
        UsageUpdated,
        event_adapter,
    )
    from interlock.hooks import (
        ALL_POWERS,
        Allow,
        AuditRecord,
        DenyCall,
        HookCall,
        HookEvent,
        HookOutcome,
        HooksFile,
        HookSpec,
        Interceptor,
        Modify,
        Power,
        Replace,
        outcome_adapter,
    )
    from interlock.model import FrozenMap, JsonValue
    from interlock.outcome import Denial, Outcome, RateLimit, Reason, Status, Usage
    from interlock.permission import Backstop, Otherwise, Permission, Posture, Rule
    from interlock.policy import Bounds, Policy, PolicyLimits, PolicyPart, PolicyPermission
    from interlock.request import (
        Fork,
        HttpServer,
        Image,
        Limits,
        McpServer,
        NewSession,
        Request,
        Resume,
        Session,
        StdioServer,
    )
    from interlock.servers import InProcessServer, ServedTool, ServerResult
    from interlock.tools import MAIN_AGENT, Subject, ToolCall, ToolKind

__all__ = [
    "ALL_POWERS",
    "MAIN_AGENT",
    "AgentError",
    "Allow",
    "Answer",
    "Answerer",
    "Approval",
    "ApprovalRequested",
    "ApprovalResolved",
    "Approve",
    "Approver",
    "AttemptLost",
    "AuditRecord",
    "Backstop",
    "BaseEvent",
    "Batch",
    "BatchBusy",
    "BatchError",
    "BatchReport",
    "BatchResult",
    "BatchView",
    "Bounds",
    "Budget",
    "Capabilities",
    "ChainNames",
    "Choice",
    "Client",
    "Compacted",
    "ConfigurationError",
    "ContractError",
    "Copy",
    "Decision",
    "Denial",
    "Deny",
    "DenyCall",
    "Event",
    "Executor",
    "ExecutorFailed",
    "ExecutorGone",
    "FileChange",
    "FilesChanged",
    "Fork",
    "FrozenMap",
    "FuturesExecutor",
    "Given",
    "Hole",
    "HookCall",
    "HookEvent",
    "HookOutcome",
    "HookSpec",
    "HooksFile",
    "HttpServer",
    "Image",
    "InProcessServer",
    "Interceptor",
    "InterlockError",
    "JournalDamaged",
    "JournalFailed",
    "JsonValue",
    "Limits",
    "LocalExecutor",
    "McpServer",
    "Modify",
    "NewSession",
    "NotInstalled",
    "NotOpen",
    "Notice",
    "Otherwise",
    "Outcome",
    "Permission",
    "Plan",
    "PlanEntry",
    "PlanUpdated",
    "Policy",
    "PolicyLimits",
    "PolicyPart",
    "PolicyPermission",
    "Posture",
    "Power",
    "Progress",
    "Question",
    "QuestionAsked",
    "QuestionItem",
    "RateLimit",
    "RateLimited",
    "Raw",
    "Reason",
    "Replace",
    "Request",
    "Resume",
    "Retries",
    "Retrying",
    "Rule",
    "Run",
    "RunEnded",
    "RunFailed",
    "RunFinished",
    "RunStarted",
    "RunStatus",
    "ServedTool",
    "ServerResult",
    "Session",
    "SessionBusy",
    "StartFailed",
    "Status",
    "StdioServer",
    "SubagentFinished",
    "SubagentStarted",
    "Subject",
    "Task",
    "TasksChanged",
    "Text",
    "TextDelta",
    "Thinking",
    "ThinkingDelta",
    "ToolCall",
    "ToolDecided",
    "ToolFinished",
    "ToolKind",
    "ToolOutput",
    "ToolRequested",
    "TurnFinished",
    "Unguarded",
    "UnknownAgent",
    "Unmet",
    "Unsupported",
    "Usage",
    "UsageUpdated",
    "Worktree",
    "batch",
    "decision_adapter",
    "event_adapter",
    "execute_attempt",
    "matrix",
    "outcome_adapter",
    "plan",
    "read_batch",
    "read_tasks",
    "run",
    "run_sync",
    "stream",
]

# Kept equal to the imports above by a test.
_NAMES = {
    "interlock.approval": (
        "Answer Answerer Approval Approve Approver Choice Decision Deny Question QuestionItem decision_adapter"
    ),
    "interlock.batch.attempt": "execute_attempt",
    "interlock.batch.executor": "AttemptLost Executor ExecutorGone",
    "interlock.batch.futures": "FuturesExecutor",
    "interlock.batch.local": "LocalExecutor",
    "interlock.batch.opening": "Batch batch",
    "interlock.batch.options": "Budget ChainNames Retries",
    "interlock.batch.results": "BatchReport BatchResult Progress RunStatus",
    "interlock.batch.tasks": "Copy Given Task Worktree matrix read_tasks",
    "interlock.batch.view": "BatchView read_batch",
    "interlock.capabilities": "Capabilities Hole Unmet",
    "interlock.engine.client": "Client",
    "interlock.engine.plan": "Plan",
    "interlock.engine.run": "Run",
    "interlock.engine.shortcuts": "plan run run_sync stream",
    "interlock.errors": (
        "AgentError BatchBusy BatchError ConfigurationError ContractError ExecutorFailed InterlockError JournalDamaged "
        "JournalFailed NotInstalled NotOpen RunEnded RunFailed SessionBusy StartFailed TasksChanged UnknownAgent "
        "Unsupported"
    ),
    "interlock.events": (
        "ApprovalRequested ApprovalResolved BaseEvent Compacted Event FileChange FilesChanged "
        "Notice PlanEntry PlanUpdated QuestionAsked RateLimited Raw Retrying RunFinished "
        "RunStarted SubagentFinished SubagentStarted Text TextDelta Thinking ThinkingDelta "
        "ToolDecided ToolFinished ToolOutput ToolRequested TurnFinished Unguarded UsageUpdated "
        "event_adapter"
    ),
    "interlock.hooks": (
        "ALL_POWERS Allow AuditRecord DenyCall HookCall HookEvent HookOutcome HookSpec "
        "HooksFile Interceptor Modify Power Replace outcome_adapter"
    ),
    "interlock.model": "FrozenMap JsonValue",
    "interlock.outcome": "Denial Outcome RateLimit Reason Status Usage",
    "interlock.permission": "Backstop Otherwise Permission Posture Rule",
    "interlock.policy": "Bounds Policy PolicyLimits PolicyPart PolicyPermission",
    "interlock.request": "Fork HttpServer Image Limits McpServer NewSession Request Resume Session StdioServer",
    "interlock.servers": "InProcessServer ServedTool ServerResult",
    "interlock.tools": "MAIN_AGENT Subject ToolCall ToolKind",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # else every misspelt name would pass for an `object`

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        # `batch` is bound by its import: to the package of that name, which can be called as the function can
        return globals().setdefault(name, value)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
