"""A program in the place of Claude Code at its own screen: it does what is typed, a line at a time.

`size`, `modes`, `write TEXT` (with escapes), `hook EVENT JSON` (calls our hook as the settings say, and prints the
answer), `stranger EVENT` (the same without the token), `child` (a process in a session of its own), `env NAME`, `argv`,
`quit CODE`. `python attached_agent.py STARTED ARGUMENTS...` makes the file STARTED first.
"""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path


def settings() -> dict[str, dict[str, list[dict[str, list[dict[str, object]]]]]]:
    named = next(word for word in sys.argv if word.startswith("--settings="))
    loaded: dict[str, dict[str, list[dict[str, list[dict[str, object]]]]]] = json.loads(
        Path(named.partition("=")[2]).read_text("utf-8")
    )
    return loaded


def hook(event: str, body: str, *, token: bool = True) -> str:
    told = settings()["hooks"][event][0]["hooks"][0]
    headers = told["headers"] if token else {"Authorization": "Bearer guessed"}
    assert isinstance(headers, dict)
    call = {"hook_event_name": event, "cwd": str(Path.cwd()), "session_id": "s"} | json.loads(body)
    request = urllib.request.Request(str(told["url"]), json.dumps(call).encode(), headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            said: str = answer.read().decode()
            return said
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}"


def obey(line: str) -> str:
    word, _, rest = line.partition(" ")
    match word:
        case "size":
            return "x".join(map(str, os.get_terminal_size()))
        case "write":
            return rest.encode().decode("unicode_escape")
        case "hook":
            event, _, body = rest.partition(" ")
            return hook(event, body)
        case "stranger":
            return hook(rest, "{}", token=False)
        case "child":
            return str(subprocess.Popen(["sleep", "600"], start_new_session=True).pid)
        case "env":
            return os.environ.get(rest, "unset")
        case "argv":
            return " ".join(sys.argv[2:])
        case "quit":
            raise SystemExit(int(rest))
        case _:
            return f"what is {word}?"


def main() -> None:
    Path(sys.argv[1]).touch()
    signal.signal(signal.SIGWINCH, lambda *_: print(f"resized {obey('size')}", flush=True))
    print("ready", flush=True)
    for line in sys.stdin:
        print(f"<{obey(line.rstrip())}>", flush=True)


if __name__ == "__main__":
    main()
