"""Structured answers and the schemas that they are held against."""

import pytest
from pydantic import BaseModel

from interlock.actions import Ending
from interlock.engine.structured import held_against, schema_problem
from interlock.outcome import Reason, Status
from interlock.request import Request

BIRD = {
    "type": "object",
    "properties": {"bird": {"type": "string"}, "legs": {"type": "integer"}},
    "required": ["bird"],
    "additionalProperties": False,
}


def ended(structured):
    return Ending(Status.COMPLETED, text="done", structured=structured)


@pytest.mark.parametrize("value", [{"bird": "heron"}, {"bird": "heron", "legs": 2}])
def test_an_answer_that_fits_is_kept(value):
    assert held_against(BIRD, ended(value)) == ended(value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "None is not of type 'object'"),
        ({}, "'bird' is a required property"),
        ({"bird": 1}, "at $.bird: 1 is not of type 'string'"),
        ({"bird": "heron", "wings": 2}, "wings"),
        ("heron", "'heron' is not of type 'object'"),
    ],
)
def test_an_answer_that_does_not_fit_is_no_answer(value, words):
    judged = held_against(BIRD, ended(value))
    assert (judged.status, judged.reason, judged.structured) == (Status.FAILED, Reason.INVALID_OUTPUT, None)
    assert words in judged.message
    assert judged.text == "done"


def test_what_is_said_about_a_long_answer_is_bounded():
    assert len(held_against(BIRD, ended({"bird": ["x" * 100_000]})).message) < 700


def test_a_run_that_failed_anyway_fails_for_its_own_reason():
    failed = Ending(Status.FAILED, Reason.AUTH, "log in")
    assert held_against(BIRD, failed) is failed


def test_without_a_schema_nothing_is_checked():
    assert held_against(None, ended(None)) == ended(None)


def test_a_schema_may_allow_null():
    assert held_against({"type": ["object", "null"]}, ended(None)).status is Status.COMPLETED


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "heron"},
        {"properties": 3},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "required": "bird"},
        {"pattern": "("},
    ],
)
def test_what_is_no_schema_is_said_to_be_none(schema):
    assert schema_problem(schema)


@pytest.mark.parametrize("schema", [BIRD, {}, {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}])
def test_a_schema_of_any_draft_is_one(schema):
    assert schema_problem(schema) is None


def test_a_reference_that_leaves_the_schema_is_not_followed():
    judged = held_against({"$ref": "http://127.0.0.1:9/schema.json"}, ended({"bird": "heron"}))
    assert judged.reason is Reason.INVALID_OUTPUT


def test_a_model_is_a_schema_and_reads_the_answer():
    class Bird(BaseModel):
        bird: str
        chicks: list["Bird"] = []

    request = Request(agent="a", prompt="p", output_schema=Bird)
    schema = request.json_schema()
    assert schema is not None
    answer = {"bird": "heron", "chicks": [{"bird": "chick"}]}
    assert Bird.model_validate(held_against(schema, ended(answer)).structured).chicks[0].bird == "chick"
    assert held_against(schema, ended({"bird": "heron", "chicks": [{}]})).reason is Reason.INVALID_OUTPUT
