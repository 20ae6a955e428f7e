"""Behaviours and tests name each other: no promise without a test, no test with a promise that is not in the list."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent


def manifest():
    spec = importlib.util.spec_from_file_location("behaviours", TESTS / "behaviours.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.BEHAVIOURS


def linked() -> dict[str, list[str]]:
    """The tests of each id, as the markers in the files say."""
    links: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for id_, line in ids_in(ast.parse(path.read_text("utf-8"))):
            links.setdefault(id_, []).append(f"{path.relative_to(TESTS)}:{line}")
    return links


def ids_in(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The arguments of every `pytest.mark.behaviour(...)`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="behaviour"), args=arguments):
                yield from ((str(one.value), node.lineno) for one in arguments if isinstance(one, ast.Constant))
            case _:
                pass


def test_every_behaviour_is_shown_by_a_test_and_every_test_shows_a_known_one() -> None:
    known = {behaviour.id for behaviour in manifest()}
    links = linked()
    assert {id_: places for id_, places in links.items() if id_ not in known} == {}
    assert sorted(known - links.keys()) == []


def test_ids_are_unique_and_well_formed_and_every_sentence_has_a_source() -> None:
    behaviours = manifest()
    assert len({behaviour.id for behaviour in behaviours}) == len(behaviours)
    for behaviour in behaviours:
        assert re.fullmatch(r"[a-z]+(:[a-z0-9-]+){1,2}", behaviour.id), behaviour
        assert behaviour.sentence.endswith("."), behaviour
        source = r"design|[\w.-]+/[\w.-]+#\d+(, [\w.-]+/[\w.-]+#\d+)*"
        assert re.fullmatch(source, behaviour.source), behaviour
