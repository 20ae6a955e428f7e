"""What a turn is begun with: the prompt, and the permission anew."""

from __future__ import annotations

from interlock.adapter import Order
from interlock.model import JsonValue
from interlock_adapters.codex import sandbox

__all__ = ["text_input", "turn_params"]


def text_input(text: str) -> JsonValue:
    """A text as a turn takes it."""
    return {"type": "text", "text": text, "text_elements": []}


def turn_params(order: Order, thread: str | None, prompt: str) -> dict[str, JsonValue]:
    """The permission stands on every turn, resumed ones too: what a thread was begun with need not hold any more."""
    request = order.request
    images: list[JsonValue] = [
        {"type": "image", "url": f"data:{image.media_type};base64,{image.data}"} for image in request.images
    ]
    params: dict[str, JsonValue] = {
        "threadId": thread,
        "input": [text_input(prompt), *images],
        "cwd": request.cwd,
        "approvalPolicy": sandbox.approval_policy(order),
        "approvalsReviewer": "user",
        "sandboxPolicy": sandbox.policy(order),
    }
    if request.effort is not None:
        params["effort"] = request.effort
    if (schema := request.json_schema()) is not None:
        params["outputSchema"] = {**schema}
    return params
