"""`python -m oncelog_server.child [FD]`: `oncelog up` for as long as its parent lives (`oncelog.running`).

Its settings are in the environment. Standard input is a pipe that only the parent holds and never writes to. When the
pipe ends, the parent has ended, in whatever way, and this process stops itself. FD is a socket whose other end the
parent holds, and over which it asks for faults (ADR 0045). Without it there are none.
"""

import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Final

from oncelog.errors import OncelogError
from oncelog_server.settings import embedded_settings, sources_of_up
from oncelog_server.up import up

if TYPE_CHECKING:
    from oncelog_server.faults.control import FaultControl

STDIN: Final = 0
EXIT_FAILED: Final = 1


def _end_with_the_parent() -> None:
    # Not sys.stdin: its lock would be held while the interpreter ends, which then aborts.
    while os.read(STDIN, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _faults(descriptor: str) -> "FaultControl":
    """Return the object that receives requests for faults over this socket. Raises OncelogError when the descriptor is
    no socket.
    """
    # Imported late: a log without faults has none of this in it.
    from oncelog_server.faults.control import FaultControl

    try:
        return FaultControl(socket.socket(fileno=int(descriptor)))
    except (ValueError, OSError) as error:
        raise OncelogError(
            f"{descriptor!r} is no socket of a parent that asks for faults ({error}); use oncelog.running(faults=True)"
        ) from error


def main(arguments: list[str]) -> int:
    """Run `oncelog up` for as long as the parent lives. Returns the exit code."""
    try:
        faults = _faults(arguments[0]) if arguments else None
        sources = sources_of_up({}, None)
        return up(embedded_settings(sources), sources, faults)
    except OncelogError as error:
        print(f"oncelog: {error}", file=sys.stderr)
        return EXIT_FAILED


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_parent, name="parent", daemon=True).start()
    sys.exit(main(sys.argv[1:]))
