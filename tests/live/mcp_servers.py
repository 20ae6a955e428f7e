"""MCP servers that real agents are given: one behind a URL, and `echo_server.py`, which speaks over stdio."""

import json
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def echo(**more: object) -> dict[str, object]:
    """The servers of a request that names the one over stdio as `e`."""
    program = str(Path(__file__).parent / "echo_server.py")
    return {"e": {"type": "stdio", "command": sys.executable, "args": [program], **more}}


class Birds(ThreadingHTTPServer):
    """An MCP server of one tool over HTTP: POST as streamable HTTP, GET as the older SSE."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.calls: list[str] = []
        self.keys: set[str | None] = set()
        self.streams: dict[str, queue.Queue[bytes]] = {}

    def answer(self, asked: Any) -> dict[str, Any] | None:
        match asked.get("method"):
            case "initialize":
                version = asked["params"]["protocolVersion"]
                info = {"name": "birds", "version": "1"}
                result: dict[str, Any] = {
                    "protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info,
                }  # fmt: skip
            case "tools/list":
                result = {"tools": [{"name": "say", "description": "says", "inputSchema": SCHEMA}]}
            case "tools/call":
                self.calls.append(asked["params"]["arguments"]["text"])
                result = {"content": [{"type": "text", "text": f"said {self.calls[-1]}"}]}
            case _:
                result = {}
        return {"jsonrpc": "2.0", "id": asked["id"], "result": result} if "id" in asked else None


class Asked(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Birds

    def log_message(self, *args: object) -> None:
        del args

    def do_POST(self) -> None:  # the name is the base class's
        self.server.keys.add(self.headers.get("x-key"))
        answer = self.server.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        data = b"" if answer is None else json.dumps(answer).encode()
        stream = self.server.streams.get(self.path)
        if stream is not None and data:
            stream.put(b"event: message\ndata: " + data + b"\n\n")
        self.send_response(202 if stream is not None or answer is None else 200)
        body = b"" if stream is not None else data
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.server.keys.add(self.headers.get("x-key"))
        if self.path != "/sse":
            self.send_response(405)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        self.server.streams["/messages"] = stream = queue.Queue()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"event: endpoint\ndata: /messages\n\n")
        while (data := stream.get()) != b"":
            self.wfile.write(data)
            self.wfile.flush()
        self.close_connection = True


@contextmanager
def birds_over(kind: str, key: str) -> Iterator[tuple[Birds, dict[str, object]]]:
    """The server while it runs, and the servers of a request that names it: by `http` or `sse`, with a key."""
    server = Birds()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    path = "/sse" if kind == "sse" else "/mcp"
    told = {"type": kind, "url": f"http://127.0.0.1:{server.server_address[1]}{path}", "headers": {"x-key": key}}
    try:
        yield server, {"birds": told}
    finally:
        for stream in server.streams.values():
            stream.put(b"")
        server.shutdown()
        thread.join(10)
        server.server_close()
