"""Pydantic models of records in REST: what answers contain, and the bodies of requests."""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from oncelog_gateway.core.record_walk import MarkerKind, Outcome
from oncelog_gateway.core.topic_configs import OpenApi
from oncelog_gateway.resources import INT32_MAX, Failure, RequestBody, Resource

Isolation = Literal["read_committed", "read_uncommitted"]


class RecordHeader(Resource):
    name: str
    value: str | None = Field(None, description="text; null: see `value_base64`, or it is null")
    value_base64: str | None = Field(None, description="a value that is not UTF-8")
    value_bytes: int | None = Field(None, description="size of all of it; null: the value is null")


class BrowsedRecord(Resource):
    partition: int
    offset: int
    timestamp_ms: int = Field(description="-1: none")
    size_bytes: int = Field(description="of key, value and headers' values, without compression")
    outcome: Outcome = Field(
        description="of its transaction: `committed`, `aborted` or `open`; `plain`: it is of none; `marker`: a control "
        "record, which no client sees"
    )
    read_committed: bool = Field(description="a read_committed consumer gets this record now")
    marker: MarkerKind | None = Field(
        None, description="of a control record; null also for one of another kind"
    )
    key: str | None = Field(None, description="text; null: see `key_base64`, or it is null")
    key_base64: str | None = Field(None, description="a key that is not UTF-8")
    key_bytes: int | None = Field(None, description="size of all of it; null: the key is null")
    value: str | None = Field(None, description="text; null: see `value_base64`, or it is null")
    value_base64: str | None = Field(None, description="a value that is not UTF-8")
    value_bytes: int | None = Field(None, description="size of all of it; null: the value is null")
    headers: list[RecordHeader]
    cut: list[str] = Field(description="which of `key`, `value` and `headers` are shown in part")
    producer_id: int | None = None
    producer_epoch: int | None = None
    transactional_id: str | None = Field(
        None,
        description="null: of no transaction, or no coordinator knows the producer id any more",
    )
    decoded: dict[str, object] | None = Field(
        None, description="of Kafka's internal topics: the fields of key and value by name"
    )


class PartitionRead(Resource):
    """A partition that this page has read, and its offsets when the page began."""

    partition: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int


class Unshown(Resource):
    """Records that this page has read and does not show."""

    aborted: int = Field(0, description="with read_committed: of aborted transactions")
    markers: int = Field(0, description="control records, with read_committed or `markers=false`")
    held_back: int = Field(
        0,
        description="with read_committed: offsets from the last stable offset to the high watermark, of the partitions "
        "of this page",
    )
    filtered: int = Field(0, description="what the filters leave out")


class RecordPage(Resource):
    topic: str
    isolation: Isolation
    records: list[BrowsedRecord]
    next_cursor: str | None = Field(
        description="of the next page; null: everything was read. A page may be empty and have a next one"
    )
    bytes_read: int = Field(description="of record batches, for this page")
    partitions: list[PartitionRead]
    unshown: Unshown
    incomplete: list[Failure] = Field(description="what could not be read, and why")


_BASE64: Final = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
Base64 = Annotated[str | None, Field(pattern=_BASE64)]


def _one_of(*names: str) -> OpenApi:
    """Return a part of a JSON Schema: of each of these fields, the text or the base64 variant may be given,
    not both.
    """
    return {
        "allOf": [
            {
                "anyOf": [
                    {"properties": {name: {"type": "null"}}},
                    {"properties": {f"{name}_base64": {"type": "null"}}},
                ]
            }
            for name in names
        ]
    }


class NewHeader(RequestBody):
    model_config = ConfigDict(json_schema_extra=_one_of("value"))

    name: str = Field(max_length=1_000)
    value: str | None = Field(None, description="text; null: see `value_base64`, or it is null")
    value_base64: Base64 = None


class WriteRecordRequest(RequestBody):
    model_config = ConfigDict(json_schema_extra=_one_of("key", "value"))

    partition: int | None = Field(
        None, ge=0, le=INT32_MAX, description="null: by the key as a Java producer chooses, or any"
    )
    key: str | None = Field(None, description="text; null: see `key_base64`, or it is null")
    key_base64: Base64 = None
    value: str | None = Field(
        None,
        description="text; null: see `value_base64`, or it is null, which compaction deletes by",
    )
    value_base64: Base64 = None
    headers: list[NewHeader] = Field(default_factory=list, max_length=100)
    transaction: Literal["none", "commit", "abort"] = Field(
        "none", description="`commit` and `abort`: in a transaction of its own, which ends so"
    )


class WrittenRecord(Resource):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    transaction: Literal["none", "commit", "abort"]
    transactional_id: str | None = Field(description="of its transaction; null: it is of none")
    audit_id: str
    detail: str
