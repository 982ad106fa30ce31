"""`oncelog up` that counts what it allocates: `python -m bench.traced_server FILE up …`.

The first SIGUSR1 begins the count, the second ends it. After each a file beside FILE shows that it is
done: `.begun`, `.ended`.
"""

import signal
import sys
from pathlib import Path
from types import FrameType

import memray

from oncelog_server.cli import main as oncelog


def main() -> None:
    path = Path(sys.argv.pop(1))
    tracker = memray.Tracker(path, trace_python_allocators=True)
    begun, ended = path.with_suffix(".begun"), path.with_suffix(".ended")

    def take_turn(signal_number: int, frame: FrameType | None) -> None:
        if begun.exists():
            tracker.__exit__(None, None, None)
            ended.touch()
        else:
            begun.touch()
            tracker.__enter__()

    signal.signal(signal.SIGUSR1, take_turn)
    oncelog()


if __name__ == "__main__":
    main()
