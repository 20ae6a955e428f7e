"""A program of its own that lets a person edit one line: `python -I line_editor.py DESCRIPTOR`.

It is a process, not a thread, so that it can be ended while it waits: an approval may be withdrawn meanwhile.
The line to begin with comes over the socket DESCRIPTOR, up to its end, and the new line goes back the same way.
"""

import contextlib
import socket
import sys

PROMPT = "new> "


def main() -> int:
    """Edit one line; exit 1 without an answer at the end of input or on Ctrl-C."""
    with socket.socket(fileno=int(sys.argv[1])) as channel, channel.makefile("rb") as start:
        begin = start.read().decode()
        with contextlib.suppress(ImportError):
            import readline  # noqa: PLC0415 -- not every Python has it

            readline.set_startup_hook(lambda: readline.insert_text(begin))
        try:
            line = input(PROMPT)
        except (EOFError, KeyboardInterrupt):
            return 1
        channel.sendall(line.encode(errors="surrogateescape"))
        return 0


if __name__ == "__main__":
    sys.exit(main())
