"""Reads the records of a topic for REST and the console, a page at a time. It fetches as a consumer does, but waits for
no new records.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import Final

from oncelog.api.v1 import storage_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.record.records import shown_key
from oncelog.wording import counted
from oncelog_gateway.core.internal_records import decoded
from oncelog_gateway.core.record_content import content_of
from oncelog_gateway.core.record_position import Place, Reading, queued, shares
from oncelog_gateway.record_pace import Pace, Turns
from oncelog_gateway.record_resources import (
    BrowsedRecord,
    PartitionRead,
    RecordHeader,
    RecordPage,
    Unshown,
)
from oncelog_gateway.record_source import (
    Found,
    FromOffset,
    FromTime,
    Newest,
    PageSoFar,
    Source,
    Wanted,
    content_size,
    end_of,
)
from oncelog_gateway.resources import failure_of
from oncelog_gateway.roles import Roles
from oncelog_gateway.transactions import Transactions

PARTITIONS_MAX: Final = 200
"""Partitions of a topic that one reading covers at most: a cursor holds a place in each."""


class Records:
    def __init__(self, roles: Roles, transactions: Transactions) -> None:
        self._roles = roles
        self._transactions = transactions
        self.pace = Pace()

    async def page(self, topic: str, wanted: Wanted) -> RecordPage:
        """Return a page of records. Raises KafkaError, whose text says what to change."""
        # Pages that come one upon another pay for those before.
        await self.pace.spent(0.0)
        numbers = self._partitions(topic, wanted)
        described = await self._roles.describe_partitions(
            [Partition(topic, number) for number in numbers]
        )
        page = PageSoFar(wanted, wanted.bytes_max)
        known: dict[int, storage_pb2.PartitionDescription] = {}
        for partition, answer in described.items():
            if isinstance(answer, KafkaError):
                page.failures[str(partition)] = answer
            else:
                known[partition.partition] = answer
        if not known and page.failures:
            raise next(iter(page.failures.values()))
        reading = await self._reading(topic, wanted, known)
        here = [place for place in reading.places if place.partition in known]
        away = [place for place in reading.places if place.partition not in known]
        # A partition with nothing to read takes no share of the page from the others.
        done = [place for place in here if _is_at_end(reading, place, known, wanted)]
        waiting = [place for place in here if place not in done]
        parts = shares(waiting, wanted.limit)
        gone_on: list[Place] = []
        of_each: list[list[Found]] = []
        is_read = not parts
        for index, (place, share) in enumerate(parts):
            # Each has its part of the bytes, so that the last one is not left without.
            page.bytes_left = max(wanted.bytes_max - page.spent, 0) // (len(parts) - index)
            partition = Partition(topic, place.partition)
            source = Source(self._roles, partition, known[place.partition], self.pace)
            go_on = source.backward if reading.is_backward else source.forward
            try:
                rows, next_offset = await go_on(place.offset, share, page)
            except KafkaError as error:
                page.failures[str(source.partition)] = error
                gone_on.append(place)
                continue
            of_each.append(rows)
            is_read = True
            if next_offset is not None:
                gone_on.append(Place(place.partition, next_offset))
        if not is_read:
            raise next(iter(page.failures.values()))
        left = Reading(reading.is_backward, queued(waiting, len(parts), [*gone_on, *away]))
        # Nearly by time; records of one partition stay in the order of their offsets.
        found = list(heapq.merge(*of_each, key=_time_of, reverse=reading.is_backward))
        read = sorted([place.partition for place, _ in parts] + [one.partition for one in done])
        read_here = [known[number] for number in read]
        return RecordPage(
            topic=topic,
            isolation=wanted.isolation,
            records=await self._shown(topic, found, page),
            next_cursor=left.cursor(),
            bytes_read=page.bytes_read,
            partitions=[PartitionRead.model_validate(one) for one in read_here],
            unshown=_unshown(page, read_here),
            incomplete=[failure_of(one) for one in page.failures.values()],
        )

    def _partitions(self, topic: str, wanted: Wanted) -> Sequence[int]:
        """Return the numbers of the partitions that the page reads: those of the cursor, the one that is named, or all.
        Raises KafkaError for one that does not exist, and for too many.
        """
        if wanted.partition is not None:
            self._roles.leader_of(Partition(topic, wanted.partition))
        every = [one.partition for one in self._roles.topic(topic).partitions]
        if wanted.cursor is not None:
            named = [place.partition for place in Reading.of_cursor(wanted.cursor).places]
            gone = sorted(set(named) - set(every))
            if gone:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"the cursor names partition {gone[0]}, which topic {topic!r} does not have; begin anew without it",
                )
            return named
        if wanted.partition is not None:
            return [wanted.partition]
        if len(every) > PARTITIONS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"topic {topic!r} has {counted(len(every), 'partition')}, and at most {PARTITIONS_MAX} are read "
                f"together; name one: partition=0",
            )
        return every

    async def _reading(
        self,
        topic: str,
        wanted: Wanted,
        known: dict[int, storage_pb2.PartitionDescription],
    ) -> Reading:
        """Return the offset in each partition where this page begins, from the cursor or from `wanted.begin`. `known`
        has the partitions whose leaders answered. Raises KafkaError.
        """
        if wanted.cursor is not None:
            return Reading.of_cursor(wanted.cursor)
        begin = wanted.begin
        ends = {number: end_of(one, wanted) for number, one in known.items()}
        if isinstance(begin, Newest):
            return Reading(True, tuple(Place(*one) for one in ends.items()))
        starts = {number: one.log_start_offset for number, one in known.items()}
        if isinstance(begin, FromTime):
            listed = await self._roles.list_offsets(
                [Partition(topic, number) for number in known], begin.timestamp_ms
            )
            for partition, answer in listed.items():
                if isinstance(answer, KafkaError):
                    raise answer
                number = partition.partition
                starts[number] = answer.offset if answer.offset >= 0 else ends[number]
        elif isinstance(begin, FromOffset):
            if wanted.partition is not None:
                _require_offset(Partition(topic, wanted.partition), begin.offset, known)
            starts = {number: max(begin.offset, start) for number, start in starts.items()}
        return Reading(False, tuple(Place(*one) for one in starts.items()))

    async def _shown(
        self, topic: str, found: Sequence[Found], page: PageSoFar
    ) -> list[BrowsedRecord]:
        ids = {one.seen.header.producer_id for one in found if one.seen.transaction is not None}
        named, silent = await self._transactions.of_producers(sorted(ids))
        page.failures.update((one.message, one) for one in silent)
        names: dict[int, str] = {one.producer_id: one.transactional_id for one in named}
        rows, turns = [], Turns(self.pace)
        for one in found:
            rows.append(_row(topic, one, names, page.wanted.content_bytes))
            await turns.next()
        return rows


def _is_at_end(
    reading: Reading,
    place: Place,
    known: Mapping[int, storage_pb2.PartitionDescription],
    wanted: Wanted,
) -> bool:
    one = known[place.partition]
    begin, end = one.log_start_offset, end_of(one, wanted)
    if reading.is_backward:
        return min(place.offset, end) <= begin
    return max(place.offset, begin) >= end


def _time_of(found: Found) -> tuple[int, int]:
    return (found.seen.record.timestamp, found.partition)


def _require_offset(
    partition: Partition, offset: int, known: Mapping[int, storage_pb2.PartitionDescription]
) -> None:
    one = known[partition.partition]
    if not one.log_start_offset <= offset <= one.high_watermark:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"there is no offset {offset} in {partition}: its log begins at {one.log_start_offset} and ends before "
            f"{one.high_watermark}; give one of these, or oldest or newest",
        )


def _unshown(page: PageSoFar, read: Sequence[storage_pb2.PartitionDescription]) -> Unshown:
    held_back = 0
    if page.wanted.is_committed_only:
        held_back = sum(one.high_watermark - one.last_stable_offset for one in read)
    return Unshown(
        aborted=page.aborted, markers=page.markers, held_back=held_back, filtered=page.filtered
    )


def _row(topic: str, found: Found, names: Mapping[int, str], content_bytes: int) -> BrowsedRecord:
    record, header = found.seen.record, found.seen.header
    key, value = content_of(record.key, content_bytes), content_of(record.value, content_bytes)
    headers = [
        (shown_key(name.encode(errors="surrogateescape")), content_of(content, content_bytes))
        for name, content in record.headers
    ]
    cut = [
        name
        for name, is_cut in (
            ("key", key.is_cut),
            ("value", value.is_cut),
            ("headers", any(content.is_cut for _, content in headers)),
        )
        if is_cut
    ]
    is_known = header.has_producer_id
    fields = decoded(topic, record) if not header.is_control else None
    return BrowsedRecord(
        partition=found.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        size_bytes=content_size(found.seen),
        outcome=found.outcome,
        read_committed=found.outcome in ("committed", "plain")
        and record.offset < found.last_stable_offset,
        marker=found.seen.marker,
        key=key.text,
        key_base64=key.base64,
        key_bytes=key.size_bytes,
        value=value.text,
        value_base64=value.base64,
        value_bytes=value.size_bytes,
        headers=[
            RecordHeader(
                name=name,
                value=content.text,
                value_base64=content.base64,
                value_bytes=content.size_bytes,
            )
            for name, content in headers
        ],
        cut=cut,
        producer_id=header.producer_id if is_known else None,
        producer_epoch=header.producer_epoch if is_known else None,
        transactional_id=names.get(header.producer_id) if found.seen.transaction else None,
        decoded=None if fields is None else dict(fields),
    )
