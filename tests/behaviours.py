"""The behaviours that Interlock promises, each with the tests that show it.

An id is `area:feature` or `area:feature:variant`, and stays. `source` says where the need was seen: public reports as
`owner/repository#number`, or `design`. A test names what it shows with `@pytest.mark.behaviour("id")`;
`test_behaviours.py` holds both directions: no id without a test, no test with an unknown id.
"""

from __future__ import annotations

from typing import NamedTuple


class Behaviour(NamedTuple):
    """One promise."""

    id: str
    sentence: str
    source: str = "design"


BEHAVIOURS = (
    # ---- framing: what comes on stdout ------------------------------------------------------------------------------
    Behaviour(
        "framing:long-line",
        "A very long line is one message; over the limit that line alone is dropped, reported with its true length.",
        "anthropics/claude-agent-sdk-python#58, ColeMurray/background-agents#1968",
    ),
    Behaviour(
        "framing:unknown-message",
        "A message of an unknown kind is Raw with the original kept, and ends nothing.",
        "anthropics/claude-agent-sdk-python#599, anthropics/claude-code#27239",
    ),
    Behaviour(
        "framing:noise",
        "A line that is no message is noise alone, never joined with its neighbours.",
        "anthropics/claude-agent-sdk-python#148, anomalyco/opencode#13634",
    ),
    Behaviour(
        "framing:chunking",
        "However output is cut into pieces, the same events come of it.",
        "anthropics/claude-agent-sdk-python#15, anthropics/claude-agent-sdk-python#156",
    ),
    Behaviour(
        "framing:utf-8",
        "Characters cut by a chunk border are whole, and a line that is no UTF-8 is trouble alone.",
        "anthropics/claude-agent-sdk-python#550, Graphify-Labs/graphify#1505",
    ),
    Behaviour(
        "framing:line-separators",
        "U+2028 and its like are ordinary characters inside a message.",
        "openai/codex#33617, svkozak/pi-acp#41",
    ),
    # ---- process: start, silence, end -------------------------------------------------------------------------------
    Behaviour("process:never-ready", "An agent that never starts is given up in bounded time.", "openai/codex#19945"),
    Behaviour(
        "process:lingers",
        "An agent that never exits after its last word does not hold up the run.",
        "anthropics/claude-code#25629, BloopAI/vibe-kanban#2495",
    ),
    Behaviour(
        "process:stall",
        "Silence in the middle of a run ends it after the idle limit; retries and notices are no progress.",
        "anthropics/claude-code#39700, openai/codex#28476",
    ),
    Behaviour(
        "process:grandchild",
        "A grandchild that holds stdout open delays the end by a bounded time.",
        "Abilityai/trinity#548, docker/docker-agent#2462",
    ),
    Behaviour(
        "process:host-death",
        "Nothing of a run survives its host, however that dies.",
        "anthropics/claude-agent-sdk-typescript#142, thedotmack/claude-mem#742",
    ),
    Behaviour(
        "process:stderr",
        "A flood on stderr blocks nothing, and its end is kept.",
        "anthropics/claude-agent-sdk-python#103",
    ),
    Behaviour(
        "process:stdin",
        "Our end of the agent's stdin stays open while it may still ask; an agent that closes it fails the run.",
        "anthropics/claude-agent-sdk-python#1105, anthropics/claude-agent-sdk-typescript#369",
    ),
    Behaviour(
        "process:handshake",
        "An agent that dies, or says nothing, while it starts ends the run then and not at some later limit.",
        "anthropics/claude-agent-sdk-python#387, anthropics/claude-code#18667",
    ),
    Behaviour(
        "process:leaving",
        "Leaving a run early, in whatever way, leaves no process and no noise.",
        "anthropics/claude-agent-sdk-python#454, existential-birds/daydream#206",
    ),
    Behaviour(
        "process:silent-failure",
        "A process that ends without a word is a failed run that says so.",
        "github/copilot-cli#3189",
    ),
    # ---- cancel -----------------------------------------------------------------------------------------------------
    Behaviour(
        "cancel:interrupt",
        "A run that was interrupted on request is cancelled, and one that nobody interrupted has failed.",
        "anthropics/claude-agent-sdk-typescript#405",
    ),
    Behaviour(
        "cancel:early",
        "An interrupt before the agent is ready is not lost.",
        "anthropics/claude-agent-sdk-typescript#429",
    ),
    Behaviour(
        "cancel:next-turn",
        "Nothing of an interrupted turn lands in the next one.",
        "anthropics/claude-code#20648, agentclientprotocol/claude-agent-acp#187",
    ),
    Behaviour(
        "cancel:open-approval",
        "Cancelling while an approval is open answers it with no.",
        "ThinkInAIXYZ/deepchat#1881, aaif-goose/goose#11651",
    ),
    Behaviour(
        "cancel:ignored",
        "An agent that ignores every request to stop is killed in bounded time.",
        "anomalyco/opencode#30145, zed-industries/zed#63867",
    ),
    Behaviour(
        "cancel:shell-command",
        "With an interrupted turn ends the shell command that it ran.",
        "openai/codex#42717, multica-ai/multica#7735",
    ),
    Behaviour(
        "cancel:one-tool",
        "A denied call leaves those after it to be asked about.",
        "agentclientprotocol/claude-agent-acp#402",
    ),
    # ---- approvals --------------------------------------------------------------------------------------------------
    Behaviour("approvals:never-asked", "An agent that stops asking is found out.", "github/copilot-cli#845"),
    Behaviour(
        "approvals:nobody",
        "Asking with nobody there is refused before the start or answered with no, and never waits for ever.",
        "anomalyco/opencode#36762, github/copilot-cli#550, github/copilot-sdk#554",
    ),
    Behaviour(
        "approvals:unknown-request",
        "A request of the agent that nobody knows is answered with no, and said.",
        "openai/codex-plugin-cc#499, openai/codex#21982",
    ),
    Behaviour(
        "approvals:broken-handler",
        "A handler that raises or returns something else is a denial, once.",
        "anthropics/claude-agent-sdk-python#159",
    ),
    Behaviour(
        "approvals:questions",
        "A question to the user is answered by the user, or declined.",
        "anthropics/claude-code#50728, github/copilot-cli#2929",
    ),
    # ---- hooks ------------------------------------------------------------------------------------------------------
    Behaviour(
        "hooks:missing-program",
        "A hook that cannot be launched is an error before the start, or a denial.",
        "anthropics/claude-code#80697, anthropics/claude-code#84656",
    ),
    Behaviour(
        "hooks:rewrite",
        "A call that ran with another input than was decided is Unguarded.",
        "anthropics/claude-code#79321, anthropics/claude-code#81340",
    ),
    Behaviour(
        "hooks:deny",
        "A call that ran although it was denied is Unguarded.",
        "openai/codex#27833, anthropics/claude-code#44534",
    ),
    Behaviour(
        "hooks:not-loaded",
        "An agent that loads no hooks is found out before or at its first call.",
        "openai/codex#46210, github/copilot-cli#3345",
    ),
    Behaviour(
        "hooks:replace",
        "An output that is replaced or withheld never reaches the model as it was.",
        "anthropics/claude-code#54196, GitGuardian/ggshield#1480",
    ),
    Behaviour("hooks:visible", "A blocked call is in the stream of events.", "design"),
    # ---- sessions, outcomes, start, batches -------------------------------------------------------------------------
    Behaviour(
        "sessions:directory",
        "A session is resumed where it began, and nowhere else.",
        "manaflow-ai/cmux#5941, anomalyco/opencode#49563",
    ),
    Behaviour("sessions:taken", "A failed start does not use up a session id.", "anthropics/claude-code#5524"),
    Behaviour("sessions:two-runs", "Two runs do not go on with one session at once.", "siteboon/claudecodeui#883"),
    Behaviour(
        "sessions:not-found",
        "A session that is not there is an error, and never a fresh start.",
        "RichardAtCT/claude-code-telegram#16",
    ),
    Behaviour(
        "sessions:permission",
        "A resumed session runs under the permission of its own request.",
        "openai/codex#40149, openclaw/openclaw#28244",
    ),
    Behaviour(
        "outcome:is-error",
        "What the agent says of its turn decides, error before success, and the exit code only where it says nothing.",
        "anthropics/claude-code#79500, wzj998/ChatCCC#363, openai/codex#37717",
    ),
    Behaviour(
        "outcome:empty",
        "An empty answer is no success.",
        "anomalyco/opencode#36413, github/copilot-cli#1181",
    ),
    Behaviour(
        "start:wrong-binary",
        "Which program ran is known: its path and version are in the run, and an untested version is said.",
        "exospherehost/failproofai#74, anthropics/claude-code#18667",
    ),
    Behaviour(
        "start:long-arguments",
        "What can be long or secret never stands on the command line.",
        "anthropics/claude-agent-sdk-python#267, anthropics/claude-code#29060",
    ),
    Behaviour(
        "start:not-found",
        "A program that was not found is told from one that could not be started.",
        "JailbrokenAI/wallbreaker#28, tinyhumansai/openhuman#5044",
    ),
    Behaviour(
        "start:secrets",
        "Secrets are shown nowhere, and credentials reach no hook.",
        "anthropics/claude-agent-sdk-python#55, anthropics/claude-code#64326",
    ),
    Behaviour("batch:one-failure", "One failed run harms no other.", "inkbox-ai/claude-code-plugin#11"),
    Behaviour("batch:counted-once", "Each run of a batch is counted once, with its own answer."),
    Behaviour("batch:killed", "A driver that is killed at any moment loses no counted run, and runs none again."),
    Behaviour("batch:resume", "A resumed batch runs only what is not counted, and refuses other tasks."),
    Behaviour("batch:second-driver", "A second driver of one batch is refused."),
    Behaviour("batch:journal", "The journal can be read at every cut; a line that was changed is noticed."),
    Behaviour("batch:forged", "An outcome that the journal does not name by its digest is never believed."),
    Behaviour("batch:disk", "A full disk or an unwritable folder is a clear error, and nothing counted is lost."),
    Behaviour("batch:retries", "Transient and lost attempts are made again, within bounds, as new ones."),
    Behaviour(
        "batch:throttled",
        "Throttled runs burn no attempt; the agent's share shrinks and recovers.",
        "anthropics/claude-code#28489, anthropics/claude-code#53922",
    ),
    Behaviour("batch:exhausted", "An exhausted quota pauses its agent alone, until it is reset."),
    Behaviour("batch:budget", "No run is admitted that the budget cannot pay for.", "SWE-agent/SWE-agent#979"),
    Behaviour("batch:cancel", "Cancelling or leaving a batch ends everything that it started."),
    Behaviour("batch:given", "Runs that may write never share a directory at one time.", "siteboon/claudecodeui#883"),
    Behaviour("batch:workspaces", "Each attempt has a copy or a worktree of its own, and nothing else is changed."),
    Behaviour(
        "batch:asking", "Approvals of a batch's runs are answered while they run, and withdrawn when they are lost."
    ),
    Behaviour("batch:executor", "An executor that loses attempts, or makes them twice, changes no count."),
    Behaviour(
        "batch:approval-queue",
        "Approvals of a running batch are answered from other processes, once each, and only as they were shown.",
    ),
    # ---- batches on a Dask cluster ----------------------------------------------------------------------------------
    Behaviour("dask:cluster", "A batch runs on all workers of a cluster whose scheduler has nothing of ours."),
    Behaviour("dask:cancel", "An attempt on a worker is ended by a message.", "dask/distributed#4694"),
    Behaviour("dask:guard", "Hooks and approvals hold on every worker; one that cannot build the chain runs nothing."),
    Behaviour("dask:refused", "A worker with another version is given nothing, and the reason is told."),
    Behaviour(
        "dask:artifacts", "Files of an attempt come home or are uploaded, and none from outside of its directory."
    ),
    Behaviour("dask:worker-killed", "A killed worker loses exactly its attempts, and no agent of them lives on."),
    Behaviour("dask:poison", "A run that kills its workers is given up, and the others go on."),
    Behaviour("dask:elastic", "Workers that come and go are used while they are there."),
    Behaviour("dask:driver-killed", "The agents of a killed driver end, and the batch is gone on with."),
    Behaviour("dask:scheduler-killed", "Without its scheduler a batch ends, and no attempt counts as lost."),
    # ---- tampering --------------------------------------------------------------------------------------------------
    Behaviour("tampering:answers", "What the agent runs cannot answer our questions in our place unnoticed."),
    Behaviour("tampering:next-run", "What one run can write is not read as configuration by the next."),
    Behaviour("tampering:other-roads", "Outputs that would reach the model past the chain are withheld."),
    Behaviour("tampering:options", "Options that would undo the guard are refused."),
    # ---- the test kit -----------------------------------------------------------------------------------------------
    Behaviour("kit:recording", "A recorded run is told to its codec again as it was, and holds nothing private."),
    Behaviour("kit:record", "The program that records stands between engine and agent and changes nothing."),
    Behaviour("kit:replay", "A replay says what was said, once it is told what was told, or fails as it is told to."),
    Behaviour("kit:conformance", "Each numbered check catches the bug that it is there for, and no other does."),
    Behaviour(
        "kit:replay:endpoint", "What an agent calls our endpoints with is recorded, and a replay calls the same."
    ),
    Behaviour("kit:conformance:codex", "The Codex adapter keeps the contract, by recordings of both transports."),
    Behaviour("kit:conformance:copilot", "The Copilot adapter keeps the contract, by recordings of both transports."),
    Behaviour("kit:conformance:claude", "The Claude adapter keeps the contract, by recordings of both pinned CLIs."),
    Behaviour("kit:third-party-adapter", "An adapter of another package is found by its entry point and checked."),
    Behaviour("kit:guarded-run", "A user's test of a guard runs against the scripted agent and against the real CLI."),
)
"""Every promise that has an id so far."""
