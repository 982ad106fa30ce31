"""A request frame, from its first byte to the values that a handler gets."""

from dataclasses import fields
from datetime import timedelta
from typing import get_args, get_origin

from oncelog.protocol.frames import (
    FrameError,
    FrameSplitter,
    framed_bytes,
    read_client_id,
    read_request_prefix,
    write_request_head,
)
from oncelog.protocol.messages import drained, schema_of
from oncelog.protocol.shape import without_none
from oncelog.protocol.versions import APIS

SIZE_MAX = 65_536
SERVED = [
    (api.key, version)
    for api in APIS.values()
    for version in range(api.served_min, api.max_version + 1)
]
_SAMPLES = {
    "bool": True,
    "string": "orders",
    "bytes": b"payload",
    "records": b"records",
    "float64": 0.5,
    "uuid": None,
    "timedelta_i32": timedelta(seconds=1),
    "timedelta_i64": timedelta(seconds=1),
    "error_code": 0,
}


def fed(data):
    """A stream of bytes: as many frames as it holds, however it is cut."""
    try:
        frames = FrameSplitter(SIZE_MAX).feed(data)
        assert in_pieces(data) == frames
        accepted = [read(frame) for frame in frames]
        return bool(accepted) and all(accepted)
    except FrameError:
        return False


def in_pieces(data):
    splitter, frames = FrameSplitter(SIZE_MAX), []
    for start in range(0, len(data), 7):
        frames += splitter.feed(data[start : start + 7])
    return frames


def read(frame):
    key, version, _ = read_request_prefix(frame)
    api = APIS.get(key)
    if api is None or not api.serves(version):
        return False
    _, position = read_client_id(frame, api.is_flexible(version))
    schema = schema_of(key, version)
    elements = schema.check_request(frame, position)
    assert elements == drained(schema.check_request.in_steps(frame, position))
    request = schema.read_checked(frame, position)
    # A large request is read in steps; what comes out must not depend on its size.
    assert repr(drained(schema.reading_checked(frame, position))) == repr(request)
    return True


def seeds():
    return [frame_of(key, version) for key, version in SERVED]


def frame_of(key, version):
    schema = schema_of(key, version)
    head = write_request_head(key, version, 7, "fuzz", APIS[key].is_flexible(version))
    return framed_bytes(b"".join([head, *schema.write_request(sample(schema.request))]))


def sample(entity):
    """An instance with one element in each array."""
    return entity(**{one.name: _value(one) for one in fields(entity)})


def _value(field):
    kind, _ = without_none(field.type)
    kafka_type = field.metadata.get("kafka_type")
    is_array = get_origin(kind) is tuple
    if kafka_type:
        value = _SAMPLES.get(kafka_type, 1)
    else:
        value = sample(get_args(kind)[0] if is_array else kind)
    return (value,) if is_array else value
