"""All checkers together: each has a name of its own, a row in the README, and an answer to an empty history."""

from pathlib import Path

from oncelog_robustness.checkers.all import ALL, judge
from oncelog_robustness.checkers.verdict import Answer, Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations

README = Path(__file__).parents[4] / "oncelog_robustness" / "checkers" / "README.md"


def test_an_empty_history_is_unknown_to_every_checker():
    verdicts = judge(History(), Observations())
    assert len(verdicts) == len(ALL)
    assert [one for one in verdicts if one.answer is not Answer.UNKNOWN] == []
    assert all(one.proof and one.judged == 0 for one in verdicts)


def test_each_has_a_name_of_its_own_and_a_row_in_the_readme():
    names = [one.checker for one in judge(History(), Observations())]
    assert len(names) == len(set(names))
    page = README.read_text().replace("`-tv2`", "`delayed-end-txn-tv2`")
    assert [name for name in names if f"`{name}`" not in page] == []


def test_only_those_that_are_wanted_judge():
    def wanted(history: History, observations: Observations) -> Verdict:
        return Verdict("wanted", Answer.OK, judged=1)

    assert [one.checker for one in judge(History(), Observations(), [wanted])] == ["wanted"]
