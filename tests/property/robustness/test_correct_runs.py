"""No checker finds anything in a run against a correct log, whatever its clients received and whenever they died."""

from hypothesis import given, settings
from hypothesis import strategies as st
from oncelog_robustness.checkers.all import judge
from oncelog_robustness.checkers.verdict import Answer
from tests.property.robustness.modelled_run import Run

SEEDS = st.integers(min_value=0, max_value=2**32)


@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, steps=st.sampled_from([50, 400, 1_200]))
def test_a_correct_run_is_never_called_broken(seed, steps):
    run = Run(seed, steps)
    broken = [one for one in judge(run.history, run.observations) if one.answer is Answer.BROKEN]
    assert not broken, (seed, broken)
