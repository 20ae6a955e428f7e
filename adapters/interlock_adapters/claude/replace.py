"""Tool outputs, read and replaced in each tool's own shape.

The CLI takes `updatedToolOutput` only if it fits the tool's own structured output; anything else it ignores silently
and shows the original. So every tool whose text can be replaced has a row here; the output of any other can only be
withheld by stopping the run. Shapes of Claude Code 2.1.197 to 2.1.332.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic_core import to_json

from interlock.model import JsonValue

__all__ = ["is_replaceable", "output_of", "replaced"]

Fields = Mapping[str, JsonValue]
Body = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Shape:
    """How one tool's output is read, and how a text is put in its place; the flag says whether it is an error."""

    read: Callable[[Fields], JsonValue]
    write: Callable[[Fields, str, bool | None], Body]


def is_replaceable(name: str, response: JsonValue) -> bool:
    """Whether the output of this call can be replaced."""
    return name.startswith("mcp__") or (name in SHAPES and isinstance(response, dict))


def output_of(name: str, response: JsonValue) -> JsonValue:
    """What the tool answered: its text where it has one, else its structure."""
    if isinstance(response, list):
        return _joined(response)
    if not isinstance(response, dict) or name not in SHAPES:
        return response
    read = SHAPES[name].read(response)
    return response if read is None else read


def replaced(name: str, response: JsonValue, output: JsonValue, is_error: bool | None) -> JsonValue:
    """The tool's structured output with another text; `is_error` shows only where the tool has such a mark (Bash).

    Raises `LookupError` for a tool whose output cannot be replaced.
    """
    text = output if isinstance(output, str) else to_json(output, inf_nan_mode="null").decode()
    if name.startswith("mcp__"):
        return text
    if not isinstance(response, dict) or name not in SHAPES:
        raise LookupError(name)
    return SHAPES[name].write(response, text, is_error)


def _joined(blocks: list[JsonValue]) -> JsonValue:
    """The text of blocks that are all text, else the blocks."""
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    if len(texts) != len(blocks):
        return blocks
    return "\n".join(text for text in texts if isinstance(text, str))


def _field(key: str) -> Callable[[Fields], JsonValue]:
    return lambda response: response.get(key)


def _set(key: str) -> Shape:
    return Shape(_field(key), lambda response, text, _: {**response, key: text})


def _write_bash(response: Fields, text: str, is_error: bool | None) -> Body:
    """Nothing else of the original is kept: `persistedOutputPath` would tell the model where it lies."""
    interrupted = response.get("interrupted") is True if is_error is None else is_error
    return {"stdout": text, "stderr": "", "interrupted": interrupted, "isImage": False, "noOutputExpected": False}


def _read_file(response: Fields) -> JsonValue:
    file = response.get("file")
    return file.get("content") if response.get("type") == "text" and isinstance(file, dict) else None


def _write_file(response: Fields, text: str, is_error: bool | None) -> Body:
    """The text form serves images, notebooks and unchanged files too."""
    del is_error
    file = response.get("file")
    path = file.get("filePath") if isinstance(file, dict) else None
    lines = text.count("\n") + 1
    shown: Body = {"filePath": path if isinstance(path, str) else "", "content": text}
    return {"type": "text", "file": {**shown, "numLines": lines, "startLine": 1, "totalLines": lines}}


def _read_grep(response: Fields) -> JsonValue:
    content, names = response.get("content"), response.get("filenames")
    if isinstance(content, str) and content:
        return content
    return "\n".join(name for name in names if isinstance(name, str)) if isinstance(names, list) else None


def _write_grep(response: Fields, text: str, is_error: bool | None) -> Body:
    del response, is_error
    return {"mode": "content", "numFiles": 0, "filenames": [], "content": text, "numLines": text.count("\n") + 1}


def _read_glob(response: Fields) -> JsonValue:
    names = response.get("filenames")
    return "\n".join(name for name in names if isinstance(name, str)) if isinstance(names, list) else None


def _write_glob(response: Fields, text: str, is_error: bool | None) -> Body:
    del is_error
    lines: list[JsonValue] = [*text.split("\n")]
    return {**response, "filenames": lines, "numFiles": len(lines), "truncated": False}


def _write_web_search(response: Fields, text: str, is_error: bool | None) -> Body:
    del is_error
    return {**response, "results": [text]}


def _read_agent(response: Fields) -> JsonValue:
    content = response.get("content")
    return _joined(content) if isinstance(content, list) else None


def _write_agent(response: Fields, text: str, is_error: bool | None) -> Body:
    del is_error
    return {**response, "content": [{"type": "text", "text": text}]}


def _write_answers(response: Fields, text: str, is_error: bool | None) -> Body:
    del is_error
    answers = response.get("answers")
    asked = list(answers) if isinstance(answers, dict) else []
    return {**response, "answers": dict.fromkeys(asked, text)}


SHAPES: Mapping[str, Shape] = {
    "Bash": Shape(_field("stdout"), _write_bash),
    "Read": Shape(_read_file, _write_file),
    "Grep": Shape(_read_grep, _write_grep),
    "Glob": Shape(_read_glob, _write_glob),
    "WebFetch": _set("result"),
    "WebSearch": Shape(_field("results"), _write_web_search),
    "Agent": Shape(_read_agent, _write_agent),
    "Write": _set("filePath"),
    "Edit": _set("filePath"),
    "NotebookEdit": _set("new_source"),
    "AskUserQuestion": Shape(_field("answers"), _write_answers),
}
"""Write and Edit show the model nothing but the path, NotebookEdit the new source, inside a fixed sentence."""
