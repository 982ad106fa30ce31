"""The trace of a transaction: its ids, and the one way to write them (ADR 0028). Pure; `telemetry` records spans.

`00-<trace id, 32 hex digits>-<span id, 16>-<flags, 2>` is W3C's traceparent; flag 1 says that the trace is kept, which
means exported.
"""

import hashlib
import re
import struct
from typing import Final, NamedTuple

_STORED: Final = struct.Struct(">QQQQ")
STORED_BYTES: Final = _STORED.size
_LOW: Final = (1 << 64) - 1
_TRACEPARENT: Final = re.compile(
    r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII | re.DOTALL
)
"""The form of a traceparent: lower case only, as the standard asks. A later version may have more behind it."""
_KEPT: Final = 1


class Traceparent(NamedTuple):
    """A span of another process, as a W3C traceparent names it, and whether its trace is exported (kept)."""

    trace_id: int
    span_id: int
    is_kept: bool


class TransactionTrace(NamedTuple):
    """The ids of the trace that has all spans of one transaction.

    The coordinator that starts the transaction draws them, and stores them in its state record.
    """

    trace_id: int
    root_id: int
    """The span that all the others are below. The coordinator that writes the completion exports it."""
    start_ns: int
    """The root's start, in ns of Unix time."""


def attempt_trace(nonce: bytes, start_ns: int = 0) -> TransactionTrace:
    """Return the trace of an attempt: one try of Spark to write a micro-batch, which a random nonce names.

    The ids are computed from the nonce, so Spark's driver and tasks and each coordinator know them. The nonce is
    hashed, so that a trace does not reveal it.
    """
    digest = hashlib.blake2b(nonce, digest_size=24, person=b"oncelog trace").digest()
    trace_id = int.from_bytes(digest[:16], "big")
    root_id = int.from_bytes(digest[16:], "big")
    return TransactionTrace(trace_id or 1, root_id or 1, start_ns)


def encode_trace(trace: TransactionTrace) -> bytes:
    return _STORED.pack(trace.trace_id >> 64, trace.trace_id & _LOW, trace.root_id, trace.start_ns)


def decode_trace(stored: bytes | None) -> TransactionTrace | None:
    """Return the trace stored in a transaction's record; None if there is none or its bytes are no trace.

    A transaction without a trace works like any other.
    """
    if stored is None or len(stored) != STORED_BYTES:
        return None
    high, low, root_id, start_ns = _STORED.unpack(stored)
    if not root_id or not (high or low):
        return None
    return TransactionTrace(high << 64 | low, root_id, start_ns)


def write_traceparent(trace_id: int, span_id: int, *, is_kept: bool) -> str:
    return f"00-{trace_id:032x}-{span_id:016x}-{int(is_kept):02x}"


def read_traceparent(text: str) -> Traceparent | None:
    """Return the span of a traceparent; None for text that W3C's rules call invalid, and for no text."""
    found = _TRACEPARENT.fullmatch(text)
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    trace_id, span_id = int(trace, 16), int(span, 16)
    if version == "ff" or (more and version == "00") or not trace_id or not span_id:
        return None
    return Traceparent(trace_id, span_id, bool(int(flags, 16) & _KEPT))
