"""The console's pages of topics: their size, rate and retention, and what open transactions hold back in them."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from oncelog.ids import Partition
from oncelog_gateway.console_pages import PARTITIONS_READ_MAX, ROWS_MAX, Pages, Steps, page_number
from oncelog_gateway.console_rates import charts_of_topic
from oncelog_gateway.rate_recorder import NO_RATE, TopicRate
from oncelog_gateway.resources import PartitionStatus
from oncelog_gateway.topic_resources import config_texts

SORTS: Final = TopicRate._fields
"""Columns that topics can be sorted by, the busiest first."""


class TopicRow(NamedTuple):
    name: str
    partition_count: int
    read_count: int
    """Number of partitions whose leader answered."""
    size_bytes: int
    held_count: int
    """Number of partitions in which a transaction holds the last stable offset."""
    lso_lag: int
    oldest: PartitionStatus | None
    """The partition that is held back the most."""
    retention_ms: int
    retention_bytes: int
    rate: TopicRate | None
    """The topic's rates a second; None: the gateway has no two readings yet."""


def add_topics(router: APIRouter, pages: Pages) -> None:
    @router.get("/topics")
    async def topic_list(
        topic: str = "", page: str = "1", internal: str = "", sort: str = ""
    ) -> HTMLResponse:
        number = page_number(page)
        image = pages.roles.image
        names = sorted(
            name
            for name, one in image.topics.items()
            if topic in name and (internal or topic or not one.internal)
        )
        rates, span_ms = pages.views.rates.topic_rates()
        if sort in SORTS:
            names = busiest_first(names, rates, sort)
        filters = {"topic": topic, "internal": internal}
        shown = names[(number - 1) * ROWS_MAX : number * ROWS_MAX]
        rows = await _topic_rows(pages, shown)
        return pages.page(
            "topics.html",
            "/topics",
            rows=rows,
            span_ms=span_ms,
            sort=sort if sort in SORTS else "",
            sorts={
                one: "?" + urlencode({k: v for k, v in {**filters, "sort": one}.items() if v})
                for one in ("", *SORTS)
            },
            total=len(names),
            topic=topic,
            internal=internal,
            steps=Steps.of(number, len(names), {**filters, "sort": sort if sort in SORTS else ""}),
            events="/v1/events?kind=transaction&limit=1",
        )

    @router.get("/topic")
    async def one_topic(name: str) -> HTMLResponse:
        (row,) = await _topic_rows(pages, [name])
        image = pages.roles.image
        partitions = [Partition(name, one.partition) for one in image.topics[name].partitions]
        rows = await pages.views.partitions.statuses(partitions[:ROWS_MAX])
        return pages.page(
            "topic.html",
            "/topics",
            row=row,
            charts=charts_of_topic(pages.views.rates, name),
            rows=rows,
            writers=await pages.views.writers.of(rows),
            now=pages.clock.now(),
            partition_count=len(partitions),
            configs=sorted(image.topics[name].configs.items()),
            replicas=len(image.topics[name].partitions[0].replicas) if partitions else 0,
            events=f"/v1/events?limit=1&{urlencode({'topic': name})}",
        )


def busiest_first(names: Sequence[str], rates: Mapping[str, TopicRate], column: str) -> list[str]:
    """Return topic names sorted by a field of `TopicRate`, the highest rate first. Topics with the same rate keep their
    order.
    """
    at = SORTS.index(column)
    return sorted(names, key=lambda name: -rates.get(name, NO_RATE)[at])


async def _topic_rows(pages: Pages, names: list[str]) -> list[TopicRow]:
    image = pages.roles.image
    found: dict[str, list[PartitionStatus]] = {name: [] for name in names}
    wanted = [
        Partition(name, one.partition)
        for name in names
        for one in (image.topics[name].partitions if name in image.topics else ())
    ]
    for row in await pages.views.partitions.statuses(wanted[:PARTITIONS_READ_MAX]):
        if row.failure is None:
            found[row.topic].append(row)
    rates, span_ms = pages.views.rates.topic_rates()
    return [
        _topic_row(pages, name, found[name], rates.get(name, NO_RATE) if span_ms else None)
        for name in names
    ]


def _topic_row(
    pages: Pages, name: str, rows: list[PartitionStatus], rate: TopicRate | None
) -> TopicRow:
    topic = pages.roles.topic(name)
    held = [row for row in rows if row.lso_holder is not None]
    configs = config_texts(pages.roles.image, topic)
    return TopicRow(
        name,
        len(topic.partitions),
        len(rows),
        sum(row.size_bytes or 0 for row in rows),
        len(held),
        sum(row.lso_lag or 0 for row in rows),
        max(held, key=lambda row: row.lso_lag or 0, default=None),
        int(configs["retention.ms"]),
        int(configs["retention.bytes"]),
        rate,
    )
