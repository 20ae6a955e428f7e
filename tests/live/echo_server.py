"""An MCP server over stdio whose one tool says what it was given, and the variable KEY; of `bad` that as an error."""

import json
import os
import sys

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {}
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        about = {"name": "e", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    elif asked["method"] == "tools/list":
        schema = {"type": "object", "properties": {"x": {"type": "string"}}}
        result = {"tools": [{"name": "echo", "inputSchema": schema}]}
    elif asked["method"] == "tools/call":
        given = asked["params"]["arguments"]
        said = "echoed " + json.dumps(given) + os.environ.get("KEY", "")
        result = {"content": [{"type": "text", "text": said}], "isError": given.get("x") == "bad"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
