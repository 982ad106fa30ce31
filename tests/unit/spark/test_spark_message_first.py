"""What Spark shows of an error begins with the line that helps: it shows what Python formats in a worker."""

import traceback

import pytest

from oncelog.errors import ErrorCode, KafkaError, OncelogError
from oncelog.spark.message_first import message_first, rows_message_first


def shown(call):
    with pytest.raises(OncelogError) as raised:
        call()
    error = raised.value
    return "".join(traceback.TracebackException(type(error), error, error.__traceback__).format())


@message_first
def plain():
    raise OncelogError("start `oncelog up`")


@message_first
def chained():
    try:
        int("x")
    except ValueError as error:
        raise OncelogError("give a number") from error


@message_first
def within_another():
    try:
        int("x")
    except ValueError:
        plain()


@message_first
def of_kafka():
    raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "nobody answers")


@rows_message_first
def rows():
    yield 1
    raise OncelogError("offsets are gone")


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (plain, "oncelog: start `oncelog up`"),
        (chained, "oncelog: give a number"),
        (within_another, "oncelog: start `oncelog up`"),
        (of_kafka, "oncelog: "),
        (lambda: list(rows()), "oncelog: offsets are gone"),
    ],
)
def test_message_is_the_first_line(call, line):
    text = shown(call)
    assert text.splitlines()[0].startswith(line)
    assert text.count("\noncelog: ") == 0
    assert "Traceback" in text


def test_what_is_not_ours_is_left_alone():
    @message_first
    def fails():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        fails()
    assert raised.value.__cause__ is None
