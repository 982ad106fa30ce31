"""The spans that a transaction's records name: W3C's `traceparent` in headers, as instrumented producers write it.

Only a process that records spans reads them, and only in the first batch of a transaction in each partition. For most
batches one search for the header's name in their bytes is enough.
"""

from typing import Final

from oncelog.record.bulk import corrupt_errors, records_of, uncompressed
from oncelog.trace import Traceparent, read_traceparent

HEADER: Final = "traceparent"
LINKS_MAX: Final = 32
"""Each leader links a transaction to at most this many different spans.

OpenTelemetry exports 128 links of a span by default, and nobody follows more than a few. One transaction may hold
records of thousands of requests.
"""
RECORDS_MAX: Final = 500
"""At most this many records of a batch are read, in about a tenth of a millisecond. All of them may name the same span.
"""
HEADER_BYTES: Final = HEADER.encode()


def linked_spans(batch: bytes, links_max: int) -> list[Traceparent]:
    """Return the spans that the headers of a batch name, each once and in their order.

    A malformed `traceparent` names none. The batch was checked before. This decompresses it, which takes as long as
    that check.
    """
    plain = uncompressed(batch)
    assert isinstance(plain, bytes), type(plain)
    if links_max <= 0 or HEADER_BYTES not in plain:
        return []
    found: dict[Traceparent, None] = {}
    try:
        for position, record in enumerate(records_of(plain)):
            if position == RECORDS_MAX or len(found) >= links_max:
                break
            for name, value in record.headers:
                if name == HEADER and value:
                    known = read_traceparent(value.decode("latin-1"))
                    if known is not None:
                        found[known] = None
    except corrupt_errors():
        # A log stores what its check let pass; tracing never refuses it.
        return list(found)[:links_max]
    return list(found)[:links_max]
