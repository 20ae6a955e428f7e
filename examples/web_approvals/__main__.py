"""`python -m web_approvals [--offline] [--port N] [FOLDER]`: serves the page until it is stopped."""

import argparse
import secrets
import signal
import socket
import sys
import tempfile
from pathlib import Path
from types import FrameType

import uvicorn

from web_approvals.agents import installed, offline
from web_approvals.app import make_app

HOST = "127.0.0.1"  # never another: who reaches the page answers for you


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m web_approvals", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="where the agents work (--offline: a temporary folder)")
    parser.add_argument("--offline", action="store_true", help="a scripted model talks, so no account is needed")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1 (default: any free one)")
    words = parser.parse_args()
    if not words.offline and words.folder is None:
        parser.error("say in which folder the agents work, or --offline")
    signal.signal(signal.SIGTERM, leave)
    with tempfile.TemporaryDirectory(prefix="web-approvals-") as scratch, socket.socket() as listener:
        folder = words.folder or Path(scratch)
        agents = offline(folder, Path(scratch)) if words.offline else installed(folder)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, words.port))
        listener.listen()
        origin = f"http://{HOST}:{listener.getsockname()[1]}"
        token = secrets.token_urlsafe(32)
        for agent in agents:
            print(f"{agent.name}: {agent.note}")
        print(f"open {origin}/#{token}", flush=True)  # what stands behind the # is sent to nobody
        app = make_app(agents, origin=origin, token=token)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, ws="none")
        uvicorn.Server(config).run(sockets=[listener])


def leave(_number: int, _frame: FrameType | None) -> None:
    """The server ends its runs and then raises the signal once more: what is temporary goes too."""
    sys.exit(0)


if __name__ == "__main__":
    main()
