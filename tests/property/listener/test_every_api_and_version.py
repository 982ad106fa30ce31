"""Whatever well-formed request arrives, in every version that is told, its answer is one that version can read."""

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.static.primitive import Records
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_world import World

from oncelog.protocol.frames import (
    FrameError,
    framed,
    read_correlation_id,
    read_request_prefix,
    write_request_head,
)
from oncelog.protocol.messages import schema_of
from oncelog.protocol.versions import APIS, DESCRIBE_TRANSACTIONS
from oncelog_listener.call import CloseConnection, Session
from oncelog_listener.cluster import Address
from oncelog_listener.dispatcher import Dispatcher

st.register_type_strategy(Records, st.binary(max_size=200).map(Records))

SERVED = [
    (api.key, version)
    for api in APIS.values()
    for version in range(api.served_min, api.max_version + 1)
]
NAMES = [f"{APIS[key].name}-v{version}" for key, version in SERVED]

MAX_WAIT = timedelta(milliseconds=20)
RETENTION_MAX = timedelta(days=365)
RELAXED = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def dispatch(world, frame):
    session = Session("test:1", Address("127.0.0.1", 9092))
    prefix = read_request_prefix(frame)
    return Dispatcher(world.cluster).dispatch(prefix, frame, session).answer


def world():
    return World(topic("orders", 2), topic("__transaction_state", 50, internal=True))


def request_frame(key, version, request):
    schema = schema_of(key, version)
    head = write_request_head(key, version, 77, "prop", APIS[key].is_flexible(version))
    return memoryview(framed([head, *schema.write_request(request)]))[4:]


def decoded(key, version, response):
    frame = memoryview(response)[4:]
    assert int.from_bytes(response[:4], "big") == len(frame)
    assert read_correlation_id(frame) == 77
    position = 5 if APIS[key].response_has_tags(version) else 4
    return schema_of(key, version).read_response(frame, position)


@pytest.mark.parametrize(("key", "version"), SERVED, ids=NAMES)
@RELAXED
@given(data=st.data())
def test_any_request_gets_an_answer_its_reader_reads(key, version, data):
    schema = schema_of(key, version)
    request = data.draw(st.from_type(schema.request))
    if key == DESCRIBE_TRANSACTIONS:
        # An error's start time is -1, which Kafka's readers take and kio's does not.
        request = schema.request(transactional_ids=tuple(filter(None, request.transactional_ids)))
    if hasattr(request, "max_wait"):
        # It may wait that long for data or for a leader, and a minute of that proves nothing more.
        request = replace(request, max_wait=min(request.max_wait, MAX_WAIT))
    if hasattr(request, "retention_time"):
        # At both ends of Python's calendar kio writes a span that it cannot read again.
        span = max(-RETENTION_MAX, min(request.retention_time, RETENTION_MAX))
        request = replace(request, retention_time=span)
    frame = request_frame(key, version, request)
    try:
        response = asyncio.run(asyncio.wait_for(awaited(dispatch(world(), frame)), 10))
    except CloseConnection:
        return
    if response is None:
        assert key == 0
        assert request.acks == 0
        return
    answer = decoded(key, version, response)
    assert schema.write_response(answer)


@pytest.mark.parametrize(("key", "version"), SERVED, ids=NAMES)
@RELAXED
@given(garbage=st.binary(max_size=200))
def test_garbage_behind_a_valid_header_is_refused_or_answered(key, version, garbage):
    head = write_request_head(key, version, 77, "prop", APIS[key].is_flexible(version))
    frame = memoryview(head + garbage)
    logging.disable(logging.WARNING)
    try:
        response = asyncio.run(asyncio.wait_for(awaited(dispatch(world(), frame)), 10))
    except (FrameError, CloseConnection):
        return
    finally:
        logging.disable(logging.NOTSET)
    if response is not None:
        decoded(key, version, response)


async def awaited(answer):
    return await answer
