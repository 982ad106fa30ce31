"""Our writer and kio's own write the same bytes, and reading in steps gives what kio reads, in every version."""

import random
import string
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import get_args, get_origin
from uuid import UUID

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from oncelog.protocol.frames import FrameError
from oncelog.protocol.messages import schema_of
from oncelog.protocol.shape import without_none
from oncelog.protocol.versions import APIS
from oncelog.protocol.writing import entity_writer_of_kio, message_writer

SERVED = [
    (api.key, version)
    for api in APIS.values()
    for version in range(api.served_min, api.max_version + 1)
]
BOUNDS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


def value_of(kafka_type, is_nullable, chance):
    if is_nullable and chance.random() < 0.3:
        return None
    size = chance.choice((0, 1, 5, 127, 128, 300))
    match kafka_type:
        case "bool":
            return chance.random() < 0.5
        case "uint16":
            return chance.randrange(1 << 16)
        case "int8" | "int16" | "int32" | "int64":
            bound = 1 << BOUNDS[kafka_type]
            return chance.choice((-bound, bound - 1, 0, -1, chance.randrange(-bound, bound)))
        case "float64":
            return chance.uniform(-1e9, 1e9)
        case "error_code":
            return chance.choice(list(ErrorCode))
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=chance.randrange(1 << 31))
        case "datetime_i64":
            return datetime.fromtimestamp(chance.randrange(1 << 41) / 1000, UTC)
        case "uuid":
            return UUID(int=chance.getrandbits(128))
        case "string":
            return "".join(chance.choice(string.ascii_letters + "äß€") for _ in range(size))
        case "bytes" | "records":
            return chance.randbytes(size)
    raise AssertionError(kafka_type)


def message_of(entity, chance):
    values = {}
    for field in fields(entity):
        if field.default is not MISSING and chance.random() < 0.5:
            continue
        kind, is_nullable = without_none(field.type)
        kafka_type = field.metadata.get("kafka_type")
        if get_origin(kind) is tuple:
            element, _ = without_none(get_args(kind)[0])
            count = chance.choice((0, 1, 3))
            values[field.name] = tuple(
                value_of(kafka_type, False, chance) if kafka_type else message_of(element, chance)
                for _ in range(count)
            )
        elif kafka_type:
            values[field.name] = value_of(kafka_type, is_nullable, chance)
        else:
            values[field.name] = message_of(kind, chance)
    return entity(**values)


@pytest.mark.parametrize(("api_key", "version"), SERVED)
def test_every_response_is_written_as_kio_writes_it(api_key, version):
    schema = schema_of(api_key, version)
    response = schema.response
    chance = random.Random(api_key * 100 + version)
    for _ in range(25):
        message = message_of(response, chance)
        expected = BytesIO()
        entity_writer(response)(expected, message)
        assert b"".join(schema.write_response(message)) == expected.getvalue()
        pieces = []
        for _ in schema.writing_response(pieces, message):
            pass
        assert b"".join(pieces) == expected.getvalue()


@pytest.mark.parametrize(("api_key", "version"), SERVED)
def test_every_request_is_read_in_steps_as_kio_reads_it(api_key, version):
    schema = schema_of(api_key, version)
    request = schema.request
    chance = random.Random(api_key * 100 + version)
    for _ in range(25):
        written = BytesIO()
        entity_writer(request)(written, message_of(request, chance))
        frame = b"head" + written.getvalue() + b"bytes behind the message"
        steps = schema.reading_checked(frame, 4)
        assert finished(steps) == schema.read_checked(frame, 4)


def finished(steps):
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def test_reading_in_steps_passes_over_unknown_tags():
    """A Fetch v12 with its cluster id in tag 0 and a tag of a later version behind it."""
    request = load_request_schema(1, 12)
    written = BytesIO()
    entity_writer(request)(written, message_of(request, random.Random(1)))
    whole = written.getvalue()
    read = schema_of(1, 12).read_checked(whole, 0)
    without_tags = BytesIO()
    entity_writer(request)(without_tags, replace(read, cluster_id=None))
    frame = without_tags.getvalue()[:-1] + b"\x02" + b"\x00\x03\x03me" + b"\x7f\x04late"
    assert finished(schema_of(1, 12).reading_checked(frame, 0)) == replace(read, cluster_id="me")


def test_reading_in_steps_stops_behind_each_element():
    frame = b"\x00\x29" + b"\x02k" * 40 + b"\x00"
    steps = schema_of(10, 4).reading_checked(frame, 0)
    assert sum(1 for _ in steps) == 40


def test_bytes_that_are_no_text_are_refused_in_steps_too():
    frame = b"\x00\x02" + b"\x02\xff" + b"\x00"
    with pytest.raises(FrameError, match="no message of api key 10 version 4"):
        finished(schema_of(10, 4).reading_checked(frame, 0))


def test_a_value_that_does_not_fit_its_field_is_refused():
    schema = schema_of(26, 1)
    message = schema.response(throttle_time=timedelta(0), error_code=1 << 20)
    with pytest.raises(Exception, match="format requires"):
        schema.write_response(message)


def test_a_tagged_field_without_a_default_is_left_to_kio():
    response = load_response_schema(59, 0)
    snapshot = next(
        get_args(field.type)[0]
        for field in fields(
            get_args(next(f for f in fields(response) if f.name == "topics").type)[0]
        )
        if field.name == "partitions"
    )
    message = message_of(snapshot, random.Random(1))
    pieces, expected = [], BytesIO()
    message_writer(snapshot)(pieces, message)
    entity_writer(snapshot)(expected, message)
    assert b"".join(pieces) == expected.getvalue()
    pieces.clear()
    entity_writer_of_kio(snapshot)(pieces, message)
    assert b"".join(pieces) == expected.getvalue()


def test_a_list_that_may_not_be_null_is_never_written_as_null():
    """Readers take a null there for the number of elements, or end with an error of their own."""
    schema = schema_of(3, 4)
    response = schema.response_types.MetadataResponse(
        throttle_time=timedelta(), brokers=(), cluster_id="c", controller_id=1, topics=None
    )
    with pytest.raises(TypeError, match="a list that is not nullable"):
        schema.write_response(response)
