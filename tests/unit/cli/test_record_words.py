"""A record is in the same words for a consumer at the command line and for the gateway over REST."""

import pytest

from oncelog.client.core.consumer_record import ConsumerRecord
from oncelog_gateway.core.record_content import content_of
from oncelog_gateway.record_resources import BrowsedRecord, RecordHeader
from oncelog_server.cli.record_form import as_json

CONTENTS = [None, b"", b"text", "grüße".encode(), b"\xff\x00"]


@pytest.mark.parametrize("content", CONTENTS)
def test_consume_prints_the_fields_of_rest(content):
    line = as_json(
        ConsumerRecord("orders", 3, 17, 1_000, 0, content, content, (("h", content),), 0)
    )
    assert line.keys() - {"topic"} <= BrowsedRecord.model_fields.keys()
    (header,) = line["headers"]
    assert header.keys() <= RecordHeader.model_fields.keys()
    shown = content_of(content, 1_000)
    for found, name in ((line, "key"), (line, "value"), (header, "value")):
        # What REST says with null, a line leaves out: it is one of millions.
        assert found.get(name) == shown.text
        assert found.get(f"{name}_base64") == shown.base64
