"""`--mcp FILE`: MCP servers in the shape that agents' own files have."""

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.request import HttpServer, StdioServer
from interlock_adapters.cli.mcp_file import McpFileProblem, read_servers


def written(folder: Path, content: Any, name: str = "servers.json") -> str:
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(file)


def problem(*paths: str) -> str:
    with pytest.raises(McpFileProblem) as caught:
        read_servers(list(paths))
    return str(caught.value)


def test_a_type_that_is_left_out_is_told_by_what_is_there(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        {
            "mcpServers": {
                "notes": {"command": "notes", "args": ["--all"], "env": {"A": "b"}},
                "web": {"url": "http://127.0.0.1:1/mcp"},
                "old": {"type": "sse", "url": "http://127.0.0.1:1/sse"},
            }
        },
    )
    assert read_servers([file]) == {
        "notes": StdioServer(command="notes", args=("--all",), env={"A": "b"}),
        "web": HttpServer(url="http://127.0.0.1:1/mcp"),
        "old": HttpServer(type="sse", url="http://127.0.0.1:1/sse"),
    }


def test_several_files_add_up_and_no_name_is_taken_twice(tmp_path: Path) -> None:
    one = written(tmp_path, {"mcpServers": {"a": {"command": "a"}}}, "one.json")
    two = written(tmp_path, {"mcpServers": {"b": {"command": "b"}}}, "two.json")
    assert sorted(read_servers([one, two])) == ["a", "b"]
    assert problem(one, one).endswith("another file has a server 'a' too; rename one of them")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "it is no JSON in UTF-8"),
        ([], 'it must be {"mcpServers"'),
        ({"servers": {}}, 'it must be {"mcpServers"'),
        ({"mcpServers": {}, "hooks": {}}, "'hooks' is nothing that such a file has"),
        ({"mcpServers": {"a": {}}}, "mcpServers.a.command: Field required"),
        ({"mcpServers": {"a": "notes"}}, "mcpServers.a"),
        ({"mcpServers": {"a": {"command": "a", "argv": []}}}, "mcpServers.a.argv: Extra inputs are not permitted"),
        ({"mcpServers": {"a": {"type": "local", "command": "a"}}}, "mcpServers.a"),
    ],
)
def test_what_cannot_be_used_names_the_file_and_the_place(tmp_path: Path, content: Any, said: str) -> None:
    file = written(tmp_path, content)
    assert problem(file).startswith(f"{file}: ")
    assert said in problem(file)


def test_a_secret_in_the_file_is_in_no_message(tmp_path: Path) -> None:
    file = written(tmp_path, {"mcpServers": {"a": {"command": "a", "env": {"TOKEN": ["hush"]}}}})
    assert "TOKEN" in problem(file)
    assert "hush" not in problem(file)


def test_a_file_that_is_not_there_or_endless(tmp_path: Path) -> None:
    assert problem(str(tmp_path / "none")).endswith("No such file or directory")
    assert "longer than" in problem("/dev/zero")
