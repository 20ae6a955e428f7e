"""Tokens over recorded and invented conversations: each is counted once, however often it is told."""

import json
from pathlib import Path

import pytest

from interlock.outcome import Usage
from interlock_adapters.claude.counting import Counting
from interlock_adapters.claude.wire import ModelUsage, ResultLine

RECORDINGS = sorted(
    path.parent for path in (Path(__file__).parents[3] / "fixtures" / "recordings" / "claude").glob("*/*/wire.jsonl")
)


def results(folder):
    """The results of a recorded conversation."""
    entries = [json.loads(text) for text in (folder / "wire.jsonl").read_text("utf-8").split("\n") if text]
    told = "".join(entry.get("data", "") for entry in entries if entry["channel"] == "stdout")
    lines = [json.loads(text) for text in told.split("\n") if text.startswith("{")]
    return [line for line in lines if line.get("type") == "result"]


def result(total=None, usage=None, subtype="success"):
    told = {
        "type": "result",
        "subtype": subtype,
        "usage": usage and {"input_tokens": usage[0], "output_tokens": usage[1]},
    }
    models = {name: {"inputTokens": count[0], "outputTokens": count[1]} for name, count in (total or {}).items()}
    return ResultLine.model_validate({**told, "modelUsage": models})


def counts(usage):
    return usage.input_tokens, usage.output_tokens


def test_a_turn_is_what_all_models_used_since_the_last():
    counting = Counting()
    assert counts(counting.turn(result({"a": (100, 10), "b": (1, 1)}, (100, 10)))) == (101, 11)
    assert counts(counting.turn(result({"a": (150, 15), "b": (1, 1)}, (50, 5)))) == (50, 5)
    assert counts(counting.so_far) == (151, 16)


def test_without_a_total_the_turns_own_word_counts():
    counting = Counting()
    assert counts(counting.turn(result(usage=(100, 10)))) == (100, 10)
    assert counts(counting.turn(result(usage=(50, 5)))) == (50, 5)
    assert counts(counting.so_far) == (150, 15)


def test_what_is_not_said_is_unknown_and_not_zero():
    assert Counting().turn(result()) == Usage()
    assert Counting().turn(result(usage=(0, 0), subtype="error_during_execution")) == Usage()


def test_a_turn_that_used_nothing_says_zero():
    counting = Counting()
    counting.turn(result({"a": (100, 10)}))
    assert counts(counting.turn(result({"a": (100, 10)}, (0, 0)))) == (0, 0)


def test_what_an_earlier_run_of_the_session_used_is_not_counted_again():
    """2.1.332 totals over the session."""
    counting = Counting()
    resumed = result({"a": (1007, 101)}, (7, 1)).model_copy(
        update={"since_last": {"a": ModelUsage.model_validate({"inputTokens": 7, "outputTokens": 1, "costUSD": 0.5})}}
    )
    assert counts(counting.turn(resumed)) == (7, 1)
    assert counting.cost == 0.5


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_a_recorded_conversation_counts_what_its_results_total(folder):
    """F12: over repeated ids, parallel calls, sub-agents, retries and several turns."""
    lines = results(folder)
    counting = Counting()
    turns = [counting.turn(ResultLine.model_validate(line)) for line in lines]
    if not lines or not lines[-1].get("modelUsage") or "resume" in folder.name or "fork" in folder.name:
        return
    models = lines[-1]["modelUsage"].values()
    assert counts(counting.so_far) == (
        sum(one["inputTokens"] for one in models), sum(one["outputTokens"] for one in models),
    )  # fmt: skip
    assert all(turn.output_tokens is not None for turn in turns)
