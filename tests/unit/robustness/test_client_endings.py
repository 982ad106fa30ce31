"""What a failed commit proves, by how often EndTxn may have been received: nothing, when in doubt."""

import pytest
from aiokafka import errors
from confluent_kafka import KafkaError
from kafka import errors as kafka_python_errors
from oncelog_robustness.clients import aiokafka, confluent, java, kafka_python
from oncelog_robustness.clients.contract import EndedByOthers, Fenced, Refused
from oncelog_robustness.clients.java_process import JavaError

FENCED, BAD_STATE = errors.ProducerFenced(), errors.InvalidTxnState()


def caused(error):
    """As aiokafka's sender passes on what it did not expect."""
    outer = errors.KafkaError("Unexpected error during batch delivery")
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize(
    ("error", "sent_count", "kind"),
    [
        (FENCED, 0, Fenced),
        (FENCED, 1, Fenced),
        (FENCED, 2, type(None)),
        (caused(BAD_STATE), 1, Refused),
        (caused(BAD_STATE), 2, type(None)),
        (caused(errors.UnknownError()), 1, type(None)),
        (caused(errors.UnknownError()), 0, Refused),
        (TimeoutError(), 0, Refused),
        (TimeoutError(), 1, type(None)),
    ],
)
def test_aiokafka_commits(error, sent_count, kind):
    assert type(aiokafka._end_of_commit(error, sent_count)) is kind


def of_librdkafka(code, *, fatal=False, abort=False):
    return KafkaError(code, "", fatal, False, abort)


@pytest.mark.parametrize(
    ("error", "sent_count", "kind"),
    [
        (of_librdkafka(KafkaError._FENCED, fatal=True), 1, Fenced),
        (of_librdkafka(KafkaError._FENCED, fatal=True), 2, type(None)),
        (of_librdkafka(KafkaError.INVALID_TXN_STATE, fatal=True), 1, Refused),
        (of_librdkafka(KafkaError._TIMED_OUT), 1, type(None)),
        (of_librdkafka(KafkaError._TIMED_OUT), 0, type(None)),
        (of_librdkafka(KafkaError._MSG_TIMED_OUT, abort=True), 0, Refused),
        (of_librdkafka(KafkaError.INVALID_PRODUCER_EPOCH, abort=True), 1, type(None)),
    ],
)
def test_confluent_commits(error, sent_count, kind):
    assert type(confluent._end_of_commit(error, sent_count)) is kind


@pytest.mark.parametrize(
    ("error", "sent_count", "kind"),
    [
        (kafka_python_errors.ProducerFencedError(), 0, Fenced),
        (kafka_python_errors.ProducerFencedError(), 1, Fenced),
        (kafka_python_errors.ProducerFencedError(), 2, type(None)),
        (kafka_python_errors.InvalidTxnStateError(), 1, Refused),
        (kafka_python_errors.InvalidTxnStateError(), 2, type(None)),
        (kafka_python_errors.KafkaError("Unhandled error in EndTxnResponse"), 1, type(None)),
        (kafka_python_errors.KafkaError("in an error state"), 0, Refused),
    ],
)
def test_kafka_python_commits(error, sent_count, kind):
    assert type(kafka_python._end_of_commit(error, sent_count)) is kind


@pytest.mark.parametrize(
    ("kinds", "sent_count", "kind"),
    [
        ("fenced", 0, Fenced),
        ("fenced", 1, Fenced),
        ("fenced", 2, type(None)),
        ("fenced", -1, type(None)),
        ("state", 1, EndedByOthers),
        ("ended", 2, type(None)),
        ("timeout", 1, type(None)),
        ("", 0, Refused),
    ],
)
def test_java_commits(kinds, sent_count, kind):
    error = JavaError({"error": "it failed", "kinds": kinds, "sent": sent_count})
    assert type(java._end_of_commit(error)) is kind
