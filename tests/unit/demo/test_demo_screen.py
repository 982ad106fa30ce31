"""What the demo shows while it waits: on a terminal a bar that names it, elsewhere one line."""

import os
import pty
import re
import subprocess
import sys

from oncelog_server.demo import screen
from oncelog_server.demo.screen import Screen

SPARK = ("Spark starts", "15 to 60 s")
ON_A_TERMINAL = """
from oncelog_server.demo.screen import Screen
with Screen(1_000) as shown:
    shown.phase("Spark starts", "15 to 60 s")
    shown.progress(10, 0)
    shown._progress.refresh()
    print("SPARK MOVES")
    shown.progress(20, 5)
"""


def test_a_phase_is_one_plain_line_and_no_line_comes_twice(capsys, monkeypatch):
    monkeypatch.setattr(screen, "PLAIN_LINE_EVERY_S", 0.0)
    with Screen(1_000) as shown:
        shown.phase(*SPARK)
        for produced, processed in ((1_000, 0), (1_000, 0), (1_000, 0), (1_000, 30)):
            shown.progress(produced, processed)
    lines = [line.partition(" s  ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "Spark starts (15 to 60 s)",
        "committed 1,000, done by Spark about 0",
        "committed 1,000, done by Spark about 30",
    ]


def test_a_terminal_has_a_bar_that_names_what_is_waited_for():
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        [sys.executable, "-c", ON_A_TERMINAL], stdout=theirs, env=environment
    ) as process:
        os.close(theirs)
        written = b"".join(iter(lambda: _read(ours), b"")).decode()
    os.close(ours)
    assert process.returncode == 0
    before, _, after = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written).partition("SPARK MOVES")
    bars = [line for line in before.splitlines() if "━" in line]
    assert any(line.startswith("Spark starts ") for line in bars)
    assert any("10/1,000" in line for line in bars)
    last = after.splitlines()[-2:]
    assert not any("Spark starts" in line for line in last), "Spark has moved"
    assert any("5/1,000" in line for line in last)


def _read(file):
    try:
        return os.read(file, 65_536)
    except OSError:  # Linux says so of a terminal whose other side is closed.
        return b""
