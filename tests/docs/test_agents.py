"""The page of agents says what their capabilities say."""

from pathlib import Path

from interlock import Backstop, Otherwise
from interlock.capabilities import Capabilities
from interlock.engine.registry import find_adapter

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
AGENTS = ("claude", "codex", "copilot", "terminal:aider")
ROWS = {
    "tested versions": lambda can: " to ".join(dict.fromkeys(can.versions.split(" to "))),
    "asks about a call": lambda can: can.asks,
    "several at once": lambda can: can.asks_in_parallel,
    "asks questions": lambda can: can.questions,
    "the chain sees calls": lambda can: can.sees_before == "all",
    "the chain sees outputs": lambda can: can.sees_after == "all",
    "inputs can be changed": lambda can: bool(can.modify),
    "outputs can be replaced": lambda can: bool(can.replace),
    "backstop": lambda can: ", ".join(one for one in can.backstops if one is not Backstop.NONE) or "none",
    "a sandbox of its own": lambda can: can.confines,
    '`otherwise="chain"`': lambda can: Otherwise.CHAIN in can.otherwise,
    '`otherwise="agent"`': lambda can: Otherwise.AGENT in can.otherwise,
    "sessions are resumed": lambda can: can.resume,
    "and forked": lambda can: can.fork,
    "several turns": lambda can: can.several_turns,
    "messages into a turn": lambda can: can.steer,
    "images": lambda can: can.images,
    "structured answers": lambda can: can.output_schema,
    "plan mode": lambda can: can.plan_mode,
    "MCP servers": lambda can: ", ".join(sorted(can.mcp_servers)) or False,
    "tools of your process": lambda can: can.in_process_servers,
    "bound on turns": lambda can: can.max_turns,
    "budget in USD": lambda can: can.budget_usd,
}


def transports() -> list[Capabilities]:
    return [transport.capabilities for name in AGENTS for transport in find_adapter(name).transports]


def words(said: object) -> str:
    return {True: "yes", False: "-"}.get(said, str(said)) if isinstance(said, bool) else str(said)


def table() -> str:
    """The table as it must stand on the page."""
    can = transports()
    head = ["", *(f"{one.agent} {one.transport}" for one in can)]
    rows = [[name, *(words(say(one)) for one in can)] for name, say in ROWS.items()]
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n".replace("|  |", "| |").replace(" --- ", "---") for cells in lines)


def test_the_table_says_what_the_capabilities_say():
    assert table() in PAGE.read_text(encoding="utf-8"), "the table must be:\n" + table()
