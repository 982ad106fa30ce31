"""What `make conformance-kafka` excuses, and what it does not."""

from scripts.conformance_table import FAILED, PASSED, unexplained

REASONS = {"admin::.*": "Kafka says it otherwise"}


def test_a_reason_excuses_a_failure_on_kafka():
    assert unexplained({"admin::one": PASSED}, {"admin::one": FAILED}, REASONS) == []


def test_a_failure_on_kafka_needs_a_reason():
    found = unexplained({"groups::one": PASSED}, {"groups::one": FAILED}, {})
    assert found == ["groups::one: passed on oncelog, failed on Kafka"]


def test_nothing_excuses_a_failure_on_oncelog():
    (found,) = unexplained({"admin::one": FAILED}, {"admin::one": PASSED}, REASONS)
    assert found == "admin::one: failed on oncelog, passed on Kafka"


def test_a_reason_without_a_test_is_told():
    (found,) = unexplained({"admin::one": PASSED}, {"admin::one": PASSED}, REASONS)
    assert found == "admin::.*: no test differs by this name"


def test_a_test_that_ran_on_one_alone_is_told():
    """As where a run was cut short. A file that is left out at Kafka is not meant."""
    ours = {"admin::one": PASSED, "admin::two": PASSED, "logins::one": PASSED}
    (found,) = unexplained(ours, {"admin::one": PASSED}, {})
    assert found == "admin::two: ran on oncelog alone"
    (found,) = unexplained({"admin::one": PASSED}, {"admin::one": PASSED, "admin::two": PASSED}, {})
    assert found == "admin::two: ran on Kafka alone"


def test_what_differs_now_and_then_may_pass_on_both():
    sometimes = {"admin::.*": "open: on a busy machine"}
    assert unexplained({"admin::one": PASSED}, {"admin::one": PASSED}, sometimes) == []
    (found,) = unexplained({"groups::one": PASSED}, {"groups::one": PASSED}, sometimes)
    assert found == "admin::.*: no test differs by this name"
