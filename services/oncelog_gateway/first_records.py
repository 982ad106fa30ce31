"""Finds when hanging transactions began, by the timestamp of their first record. No coordinator has them open, so none
can tell.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from oncelog.api.v1 import types_pb2
from oncelog.errors import KafkaError
from oncelog.record.batch import iter_headers
from oncelog_gateway.core.hanging import OpenTransaction
from oncelog_gateway.roles import Roles

ASKED_MAX: Final = 50
"""First records that one answer reads, with a batch for each. The begin of further transactions is not known."""
KNOWN_MAX: Final = 1_000
_Key = tuple[str, int, int, int]


class FirstRecords:
    """Reads the timestamps of transactions' first records, and remembers them because they do not change."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._known: dict[_Key, int | None] = {}

    async def timestamps_of(
        self, opened: Iterable[OpenTransaction]
    ) -> dict[OpenTransaction, int | None]:
        """Return the timestamp of each transaction's first record. It is None if that record is gone, or if the
        partition's leader does not answer now.
        """
        every = list(opened)
        asked = [one for one in every if _key(one) not in self._known][:ASKED_MAX]
        await asyncio.gather(*map(self._read, asked))
        while len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return {one: self._known.get(_key(one)) for one in every}

    async def _read(self, one: OpenTransaction) -> None:
        try:
            found = await self._roles.fetch(
                one.partition, one.start_offset, 1, types_pb2.READ_UNCOMMITTED
            )
        except KafkaError:
            return
        header = next((header for _, header in iter_headers(found.records)), None)
        is_its_own = header is not None and (
            header.producer_id == one.producer_id
            and header.base_offset <= one.start_offset <= header.last_offset
        )
        began = header.base_timestamp if header is not None and is_its_own else -1
        self._known[_key(one)] = began if began >= 0 else None


def _key(one: OpenTransaction) -> _Key:
    return (one.partition.topic, one.partition.partition, one.producer_id, one.start_offset)
