"""Each record that a copying group has passed is copied once, and nothing else is."""

from oncelog_robustness.checkers.copier import check
from oncelog_robustness.workload_facts import Copier, copy_value
from tests.unit.robustness.checkers.made_history import MadeHistory


def copied(*outputs: str, upto: int | None = 2, **final) -> MadeHistory:
    """Input a at 0 and b at 1; `outputs` are originals, one copy each."""
    made = MadeHistory()
    made.note(Copier(input_topic="in", output_topic="out", group="g"))
    made.final("in-0", "0 a", "1 b")
    copies = [f"{at} {copy_value(f'u{at}', original)}" for at, original in enumerate(outputs)]
    made.final("out-0", *copies, "90 something-else", **final)
    if upto is not None:
        made.fetched(f"g: in-0@{upto}", final=True)
    return made


def test_one_copy_each_is_fine():
    copied("a", "b").assert_ok(check, judged=2)


def test_two_copies_are_named():
    copied("a", "b", "a").assert_broken(check, "'a'", "2 times", "out-0@0", "out-0@2")


def test_a_missing_copy_is_named():
    copied("a").assert_broken(check, "in-0@2", "'b' at in-0@1", "no copy")


def test_what_the_group_has_not_passed_need_not_be_copied():
    copied("a", upto=1).assert_ok(check)


def test_a_missing_copy_is_not_judged_without_the_groups_place():
    copied("a", upto=None).assert_unknown(check, "group g")


def test_a_copy_of_what_is_not_there_is_named():
    copied("a", "b", "aborted").assert_broken(check, "'aborted'", "out-0@2")


def test_logs_that_were_not_read_as_a_whole_are_not_judged():
    copied("a", "b", complete=False).assert_unknown(check, "out-0")
    copied("a", "b", start=1).assert_unknown(check, "out-0")
    made = MadeHistory()
    made.note(Copier(input_topic="in", output_topic="out", group="g"))
    made.assert_unknown(check, "not read")
    MadeHistory().assert_unknown(check, "nothing was set up")


def placed(*copies: tuple[str, str, int]) -> MadeHistory:
    """Input a at 0 and c at 2 of one partition, b at 1; `copies` are partition, original and offset."""
    made = MadeHistory()
    made.note(Copier(input_topic="in", output_topic="out", group="g"))
    made.final("in-0", "0 a", "1 b", "2 c")
    for number in ("0", "1"):
        made.final(
            f"out-{number}",
            *[
                f"{at} {copy_value(f'u{original}', original)}"
                for partition, original, at in copies
                if partition == number
            ],
        )
    made.fetched("g: in-0@3", final=True)
    return made


def test_copies_in_their_places_and_order_are_fine():
    placed(("0", "a", 0), ("0", "c", 1), ("1", "b", 0)).assert_ok(check, judged=3)


def test_a_copy_in_a_wrong_partition_is_named():
    made = placed(("0", "a", 0), ("0", "b", 1), ("0", "c", 2))
    made.assert_broken(check, "'b' at in-0@1", "out-1", "out-0@1")


def test_copies_in_another_order_than_their_originals_are_named():
    made = placed(("0", "c", 0), ("0", "a", 1), ("1", "b", 0))
    made.assert_broken(check, "'a' at in-0@0", "'c' at in-0@2", "out-0@1", "out-0@0")
