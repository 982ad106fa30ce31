"""What a failed commit proves, by how often EndTxn may have been received: nothing, when in doubt."""

import pytest
from aiokafka import errors
from confluent_kafka import KafkaError
from oncelog_robustness.clients import aiokafka, confluent
from oncelog_robustness.clients.contract import Fenced, Refused

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
