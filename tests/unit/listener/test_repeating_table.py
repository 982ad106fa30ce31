"""What a listener repeats, row by row (ADR 0017)."""

import pytest

from oncelog.errors import ErrorCode
from oncelog.record.records import Record, encode_batch
from oncelog_listener.core.produce_rules import has_producer_id
from oncelog_listener.core.repeating import NOT_DONE, PERHAPS_DONE, Repeatable, is_repeated

ALWAYS, UNLESS_DONE = Repeatable.ALWAYS, Repeatable.UNLESS_DONE


@pytest.mark.parametrize("code", sorted(NOT_DONE))
@pytest.mark.parametrize("repeatable", Repeatable)
@pytest.mark.parametrize("was_sent", [True, False])
def test_what_was_refused_before_anything_was_done_is_repeated(code, repeatable, was_sent):
    assert is_repeated(repeatable, code, was_sent)


@pytest.mark.parametrize("code", sorted(PERHAPS_DONE))
@pytest.mark.parametrize(
    ("repeatable", "was_sent", "repeated"),
    [
        (ALWAYS, True, True),
        (ALWAYS, False, True),
        (UNLESS_DONE, True, False),
        (UNLESS_DONE, False, True),
    ],
)
def test_what_may_have_been_done_is_repeated_where_twice_is_once(
    code, repeatable, was_sent, repeated
):
    assert is_repeated(repeatable, code, was_sent) is repeated


@pytest.mark.parametrize("code", sorted(set(ErrorCode) - NOT_DONE - PERHAPS_DONE))
def test_every_other_answer_is_an_answer(code):
    assert not is_repeated(ALWAYS, code)
    assert not is_repeated(UNLESS_DONE, code, was_sent=False)


def test_a_batch_without_a_producer_id_would_be_written_twice():
    plain = bytes(encode_batch([Record(None, b"v", 1)]))
    idempotent = bytes(encode_batch([Record(None, b"v", 1)], producer_id=0, base_sequence=0))
    assert (has_producer_id(plain), has_producer_id(idempotent)) == (False, True)
    assert not has_producer_id(None)
