"""The first program that a reader of our documents runs does what they say, in an environment that is not activated."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.spark.session import JVM
from tests.spark.topic_tools import ROOT

RUN_S = 150
PAGE = ROOT / "docs" / "spark.md"


def first_program(page):
    (program,) = re.findall(r"```python\n(import os, sys\n.*?)```", page.read_text(), re.DOTALL)
    return program


def test_first_program_needs_nothing_but_its_interpreter(lab, tmp_path):
    program = first_program(PAGE)
    for fixed, here in (
        ("localhost:9092", lab.bootstrap),
        ("/tmp/ledger", str(tmp_path / "ledger")),
        ('"payments"', f'"{lab.source}"'),
        ('"ledger"', f'"{lab.sink}"'),
    ):
        assert fixed in program
        program = program.replace(fixed, here)
    script = tmp_path / "ledger.py"
    script.write_text(program)
    lab.fill(["a", "b", "c"])
    java = Path(shutil.which("java")).parent
    environment = {"PATH": f"/usr/bin:/bin:{java}", "HOME": str(tmp_path), "JAVA_TOOL_OPTIONS": JVM}
    environment |= {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert lab.visible_settled() == ["a", "b", "c"]
