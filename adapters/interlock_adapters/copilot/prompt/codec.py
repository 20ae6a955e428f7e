"""The sans-IO translator of one `copilot` with its prompt on stdin: lines come out, and hooks call us."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import ValidationError

from interlock.actions import Action, CloseInput, Emit, Ending, Key, Send, Stage, Verdict, Wake
from interlock.adapter import Order, Place
from interlock.approval import Answer
from interlock.events import Notice, Raw
from interlock.framing.line_adapter import LineCodec
from interlock.framing.reports import how_ended, not_ours
from interlock.model import JsonValue
from interlock.outcome import Reason, Status, Usage
from interlock.request import NewSession
from interlock_adapters.copilot.prompt import hooks
from interlock_adapters.copilot.prompt.calls import Calls
from interlock_adapters.copilot.prompt.hook_calls import PLACEHOLDER, HookCalls
from interlock_adapters.copilot.prompt.outcome import ending, usage_in
from interlock_adapters.copilot.prompt.stream import Stream
from interlock_adapters.copilot.tools import Tools

__all__ = ["USAGE_FILE", "PromptCodec"]

USAGE_FILE = "usage.json"
"""Relative to the run's folder."""
EXITING = "exiting"
"""The key of the `Wake` for a process that does not exit after its last line."""
EXIT_LIMIT = 5.0
"""Seconds."""
TERMINAL = ("result", "session.error")


class PromptCodec(LineCodec):
    """Reads one process, which is one turn, and answers its hooks."""

    def __init__(self, order: Order) -> None:
        super().__init__()
        self._resumed = not isinstance(order.request.session, NewSession)
        calls = Calls(Tools(order.request.mcp_servers))
        self._hooks = HookCalls(order, calls)
        self._stream = Stream(order, calls, self._hooks)

    # ---- What we say ------------------------------------------------------------------------------------------------

    def start(self) -> Sequence[Action]:
        """There is nothing to say before the prompt."""
        return ()

    def listening(self, places: Mapping[str, Place]) -> None:
        """The agent finds the endpoints in a file."""
        del places

    def prompt(self, prompt: str) -> Sequence[Action]:
        """A placeholder, and the end of its input, for which it waits; a hook takes the prompt."""
        self._hooks.prompt = prompt
        return (Send(PLACEHOLDER.encode()), CloseInput())

    def interrupt(self) -> Sequence[Action]:
        """It has no word for that: the run ends, and the process by a signal."""
        return self.finish(Ending(Status.CANCELLED, session_id=self._stream.told.session, final=True))

    # ---- Hooks ------------------------------------------------------------------------------------------------------

    def called(self, channel: str, key: str, body: bytes) -> Sequence[Action]:
        """The agent calls a hook."""
        if channel not in hooks.REFUSALS:
            return (not_ours(channel, key),)
        return list(self._hooks.called(channel, key, body))

    def hung_up(self, channel: str, key: str) -> Sequence[Action]:
        """The agent no longer waits for a hook."""
        del channel
        return list(self._hooks.hung_up(key))

    def decided(self, key: Key, stage: Stage | None, verdict: Verdict | Answer) -> Sequence[Action]:
        """What the hook is told."""
        if stage is None or isinstance(verdict, Answer):
            return ()
        return list(self._hooks.decided(key, stage, verdict))

    def woke(self, key: str) -> Sequence[Action]:
        """A hook has waited long enough for the stream, or the agent does not exit."""
        if key != EXITING:
            return list(self._hooks.woke(key))
        return self.finish(self._ending("it has not exited", None))

    # ---- What it says -----------------------------------------------------------------------------------------------

    def exited(self, code: int | None, signal: int | None, files: Mapping[str, bytes]) -> Sequence[Action]:
        """The usage is known only now; of a session that goes on the file counts earlier runs too."""
        how = how_ended(code, signal)
        usage = Usage() if self._resumed else usage_in(files.get(USAGE_FILE))
        return self.finish(replace(self._ending(how, code), usage=usage))

    def _ending(self, how: str, code: int | None) -> Ending:
        return ending(self._stream.told, resumed=self._resumed, how=how, code=code)

    def message(self, message: Mapping[str, JsonValue], /) -> Sequence[Action]:
        """One line."""
        try:
            actions = list(self._stream.line(message))
        except ValidationError as error:
            notice = Notice(level="error", code="unreadable_line", message=str(error))
            unread = Emit([Raw(data=dict(message)), notice])
            if message.get("type") not in TERMINAL:
                return (unread,)
            last = Ending(Status.FAILED, Reason.PROTOCOL, "the end of the turn cannot be read", final=True)
            return (unread, *self.finish(last))
        if message.get("type") == "result" and not self._over:
            actions.append(Wake(EXITING, EXIT_LIMIT))
        return actions
