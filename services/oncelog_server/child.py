"""`python -m oncelog_server.child up …`: the `oncelog` command for as long as its parent lives (`oncelog.running`).

Standard input is a pipe that only the parent holds and never writes to. Its end means that the parent has ended, in
whatever way, and that nobody is left who would stop this process.
"""

import os
import signal
import threading
from typing import Final

from oncelog_server.cli import main

STDIN: Final = 0


def _end_with_the_parent() -> None:
    # Not sys.stdin: its lock would be held while the interpreter ends, which then aborts.
    while os.read(STDIN, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_parent, name="parent", daemon=True).start()
    main()
