"""The command line `interlock`.

Nothing heavy is imported here: `interlock --version` loads no parser, `--help` no model, and rich is loaded only when
something is written to a terminal.
"""

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command; always ends by `SystemExit`.

    Codes: 0 completed, 1 failed, 2 usage or unsupported, 3 a bound tripped, 4 unguarded, 130 interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _occupy_standard_descriptors()
    if arguments == ["--version"]:
        raise SystemExit(_print_version())
    try:
        from interlock_adapters.cli.app import app  # noqa: PLC0415 -- the parser is loaded only where it is needed

        app(args=arguments, prog_name="interlock")
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def _print_version() -> int:
    from importlib.metadata import version  # noqa: PLC0415 -- same

    os.write(1, f"interlock {version('interlock')}\n".encode())
    return 0


def _occupy_standard_descriptors() -> None:
    """A descriptor 0, 1 or 2 that was closed by our parent would be reused, and an answer be written into a socket."""
    for wanted in range(3):
        try:
            os.fstat(wanted)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != wanted:
                os.dup2(opened, wanted)
                os.close(opened)
