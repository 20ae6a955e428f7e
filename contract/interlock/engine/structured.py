"""The structured answer held against the schema that was asked for, whatever the agent says of it.

References that leave the schema are never followed: nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

from interlock.actions import Ending
from interlock.engine.plain_json import copied
from interlock.model import JsonValue
from interlock.outcome import Reason, Status

__all__ = ["held_against", "schema_problem"]

LONGEST = 500
"""Characters of what is said about a value; it may hold all of it."""


def schema_problem(schema: Mapping[str, JsonValue]) -> str | None:
    """Why this is no JSON Schema; None if it is one."""
    try:
        plain = copied(dict(schema))
        _validators().validator_for(plain, default=_validators().Draft202012Validator).check_schema(plain)
    except Exception as error:  # noqa: BLE001  # whatever is wrong with it, it is no schema
        return _words(error)
    return None


def held_against(schema: Mapping[str, JsonValue] | None, ending: Ending) -> Ending:
    """The ending, failed if it was completed and its structured answer does not fit."""
    if schema is None or ending.status is not Status.COMPLETED:
        return ending
    problem = _problem(schema, ending.structured)
    if problem is None:
        return ending
    message = f"the structured answer does not fit the schema: {problem}"
    return replace(ending, status=Status.FAILED, reason=Reason.INVALID_OUTPUT, message=message, structured=None)


def _problem(schema: Mapping[str, JsonValue], value: JsonValue) -> str | None:
    try:
        plain = copied(dict(schema))
        kind = _validators().validator_for(plain, default=_validators().Draft202012Validator)
        errors = list(kind(plain, registry=import_module("referencing").Registry()).iter_errors(value))
    except Exception as error:  # noqa: BLE001  # what cannot be checked does not fit
        return _words(error)
    if not errors:
        return None
    worst = import_module("jsonschema.exceptions").best_match(errors)
    return f"at {worst.json_path}: {_words(worst)}"


def _validators() -> Any:
    return import_module("jsonschema.validators")  # slow to import, and needed only where a schema is given


def _words(error: Exception) -> str:
    text = str(getattr(error, "message", "") or error) or type(error).__name__
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
