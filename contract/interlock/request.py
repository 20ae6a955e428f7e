"""The request: everything about one run, frozen, JSON in and out, with a digest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, Discriminator, Field, field_validator

from interlock.hooks import HookSpec
from interlock.model import FrozenMap, JsonValue, Map, Model, digest
from interlock.permission import Permission

__all__ = [
    "Fork",
    "HttpServer",
    "Image",
    "Limits",
    "McpServer",
    "NewSession",
    "Request",
    "Resume",
    "Session",
    "StdioServer",
]

Seconds = Annotated[float, Field(gt=0, le=31_536_000)]


def _checked_for_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character, which no command line or path can")
    return text


Plain = Annotated[str, AfterValidator(_checked_for_nul)]
Text = Annotated[str, Field(min_length=1), AfterValidator(_checked_for_nul)]


class NewSession(Model):
    """A fresh session, with an id of your own if you give one."""

    kind: Literal["new"] = "new"
    id: Text | None = None


class Resume(Model):
    """Go on with the session `id`, in place."""

    kind: Literal["resume"] = "resume"
    id: Text


class Fork(Model):
    """Go on from the history of session `id` in a new session, which `new_id` may name."""

    kind: Literal["fork"] = "fork"
    id: Text
    new_id: Text | None = None


Session = Annotated[NewSession | Resume | Fork, Discriminator("kind")]
"""Which conversation a run belongs to; as JSON, `kind` tells which."""


class Limits(Model):
    """Bounds on a run, in seconds unless said otherwise; None is no bound.

    What measures the agent (`total`, `idle`, `start_up`) stands still while a person or the chain is asked.
    """

    total: Seconds | None = None
    idle: Seconds | None = 900.0
    """Without progress; notices of retries are no progress."""
    start_up: Seconds | None = 120.0
    """From the start of the process until it is ready for the prompt."""
    approval: Seconds | None = 3600.0
    """Past it an approval is denied as expired, and a question declined."""
    chain: Seconds = 60.0
    """For the whole chain, each time it is asked."""
    hook: Seconds = 5.0
    """For one in-process participant that sets no deadline of its own."""
    max_turns: int | None = Field(default=None, ge=1)
    budget_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    budget_tokens: int | None = Field(default=None, ge=1)
    unreplaceable: Literal["stop", "refuse"] = "stop"
    """Where the agent would still show an output that the chain withheld: `stop` interrupts the run before the model
    sees it; `refuse` makes a chain that may replace `Unsupported` on a transport where that can happen."""


class StdioServer(Model):
    """An MCP server that is a program."""

    type: Literal["stdio"] = "stdio"
    command: Text
    args: tuple[Plain, ...] = ()
    env: Map[str] = Field(default_factory=FrozenMap[str])


class HttpServer(Model):
    """An MCP server behind a URL."""

    type: Literal["http", "sse"] = "http"
    url: Text
    headers: Map[str] = Field(default_factory=FrozenMap[str])


McpServer = Annotated[StdioServer | HttpServer, Discriminator("type")]
"""An MCP server for the agent; as JSON, `type` tells which."""


class Image(Model):
    """An image that goes with the prompt: base64 of a PNG, JPEG, GIF or WebP."""

    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: Text


def _schema_of(value: object) -> object:
    """A pydantic model given as the schema becomes its JSON Schema."""
    return _model_schema(cast("type[object]", value)) if isinstance(value, type) else value


def _model_schema(value: type[object]) -> object:
    return value.model_json_schema() if issubclass(value, BaseModel) else value


if TYPE_CHECKING:
    Schema = Mapping[str, JsonValue] | type[BaseModel]
else:
    Schema = Annotated[Map[JsonValue], BeforeValidator(_schema_of)]


class Request(Model):
    """One run: which agent does what, where, and what it may do. What the agent cannot do is `Unsupported`."""

    agent: Text
    """The name of an installed adapter: `claude`, ..."""
    prompt: str
    cwd: Text = "."
    model: Text | None = None
    """Passed on as it is; None is the agent's own default."""
    effort: Text | None = None
    mode: Literal["act", "plan"] = "act"
    """`plan`: until a plan of the agent is accepted nothing is covered but reading, whatever the permission says.
    Who answers approvals accepts it, as one, and the agent goes on under the permission; without, the answer is the
    plan."""
    instructions: Plain | None = None
    """Appended to the agent's system prompt."""
    permission: Permission = Field(default_factory=Permission)
    session: Session = Field(default_factory=NewSession)
    add_dirs: tuple[Text, ...] = ()
    """Directories beside cwd that count as inside."""
    images: tuple[Image, ...] = ()
    env: Map[str] = Field(default_factory=FrozenMap[str])
    """Variables for the agent beside those of `env_policy`."""
    env_policy: Literal["minimal", "inherit"] = "minimal"
    """`minimal`: PATH, HOME and the like, and the agent's own key variables; `inherit`: all but what switches guards
    off."""
    login: Text = "user"
    """`user`: the login the person already has, and nothing else of theirs; `env`: keys from the environment; or the
    path of a folder that holds the login."""
    mcp_servers: Map[McpServer] = Field(default_factory=FrozenMap[McpServer])
    output_schema: Schema | None = None
    """A JSON Schema, or a pydantic model, for the final answer: `Outcome.structured` fits it, or the run failed as
    `invalid_output`. A model is kept as its schema alone; `Model.model_validate(outcome.structured)` makes one."""
    limits: Limits = Field(default_factory=Limits)
    hooks: tuple[HookSpec, ...] = ()
    """Participants for this run, after those of the client."""
    user_config: bool = False
    """Whether the agent loads the user's and the project's own settings, hooks, plugins and MCP servers."""
    workspace_hooks: bool = False
    """Whether `.interlock/hooks.json` of the workspace takes part, with the power to deny alone."""
    transport: Text = "auto"
    binary: Text | None = None
    """The agent's program, where it is not to be looked up."""
    extra_args: tuple[Plain, ...] = ()
    """Last on the command line, for what has no field; what weakens a guard is `Unsupported`."""
    trust_workspace: bool = False
    """Whether a workspace whose git configuration names programs may be used."""
    labels: Map[str] = Field(default_factory=FrozenMap[str])
    """Yours; they come back in the outcome."""

    @field_validator("prompt")
    @classmethod
    def _not_blank(cls, prompt: str) -> str:
        if not prompt.strip():
            message = "the prompt is blank"
            raise ValueError(message)
        return prompt

    @field_validator("env")
    @classmethod
    def _names_are_plain(cls, env: Map[str]) -> Map[str]:
        for name, value in env.items():
            if not name or "=" in name or "\0" in name or "\0" in value:
                message = f"{name!r} cannot be an environment variable: no empty name, no `=` in it, no NUL"
                raise ValueError(message)
        return env

    def json_schema(self) -> Mapping[str, JsonValue] | None:
        """The output schema as JSON Schema, whatever it was given as."""
        schema = self.output_schema
        return None if schema is None or isinstance(schema, type) else schema

    def digest(self) -> str:
        """`sha256:` and a hex digest that two requests share exactly if their JSON is the same, `1` not being `1.0`."""
        return digest(self.model_dump(mode="json"))
