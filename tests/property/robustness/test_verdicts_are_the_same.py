"""A verdict and its proof are the same whatever the order in which Python hashes strings, and after a round trip."""

import os
import subprocess
import sys
from pathlib import Path

from oncelog_robustness.checkers.all import judge
from oncelog_robustness.history import History
from tests.property.robustness import breakages
from tests.property.robustness.modelled_run import Run

ROOT = Path(__file__).parents[3]
JUDGE_SEVEN_BREAKAGES = """
import random
from oncelog_robustness.checkers.all import judge
from tests.property.robustness import breakages
from tests.property.robustness.modelled_run import Run

run = Run(7, steps=800)
for number, breakage in enumerate((
    breakages.lose_a_value, breakages.swap_two_values, breakages.show_an_aborted_value,
    breakages.skip_a_record, breakages.close_a_circle, breakages.process_twice,
    breakages.tell_an_older_offset,
)):
    assert breakage(run.history, random.Random(number)), breakage
print(*judge(run.history, run.observations), sep="\\n")
"""


def _judged(hash_seed: str) -> str:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join(str(ROOT / one) for one in ("", "src", "services")),
    }
    return subprocess.run(
        [sys.executable, "-c", JUDGE_SEVEN_BREAKAGES],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    ).stdout


def test_verdicts_do_not_depend_on_how_strings_are_hashed():
    first = _judged("1")
    assert first.count("BROKEN") >= 7
    assert _judged("2") == first


def test_a_history_read_from_its_file_is_judged_the_same():
    run = Run(11, steps=600)
    assert breakages.lose_a_value(run.history, run.draw)
    again = History.from_lines(run.history.lines())
    assert judge(again, run.observations) == judge(run.history, run.observations)
