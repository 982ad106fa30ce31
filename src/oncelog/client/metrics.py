"""Metrics of producers and consumers for Prometheus, on request: `Producer(…, metrics=registry)` (S2-98, ADR 0044).

A client counts as it goes, and a scrape reads the numbers of that moment. Only the program that passes its registry
loads `prometheus_client`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from oncelog.client.network.consumer_loop import ConsumerLoop
    from oncelog.client.network.producer_loop import ProducerLoop

PREFIX: Final = "oncelog_client_"


class Value(NamedTuple):
    """One number of a metric. A `name` that ends in _total is a counter; a pair is the count and the sum of a
    summary."""

    name: str
    help: str
    value: float | tuple[int, float]
    labels: tuple[tuple[str, str], ...] = ()


Read = Callable[[], Iterable[Value]]
"""A function that reads a client's present numbers. Any thread may call it: it only reads."""


class _Clients:
    """The Prometheus collector of one registry, for all clients in it: Prometheus wants each metric described only
    once."""

    def __init__(self) -> None:
        self.clients: dict[object, Read] = {}

    def describe(self) -> "list[Metric]":
        return []

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            SummaryMetricFamily,
        )

        found: dict[str, list[Value]] = {}
        for read in list(self.clients.values()):
            for value in read():
                found.setdefault(value.name, []).append(value)
        for name, values in sorted(found.items()):
            labels = [label for label, _ in values[0].labels]
            whole, text = PREFIX + name, values[0].help
            if isinstance(values[0].value, tuple):
                summary = SummaryMetricFamily(whole, text, labels=labels)
                for one in values:
                    assert isinstance(one.value, tuple)
                    summary.add_metric([content for _, content in one.labels], *one.value)
                yield summary
                continue
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(whole, text, labels=labels)
            for one in values:
                assert not isinstance(one.value, tuple)
                family.add_metric([content for _, content in one.labels], one.value)
            yield family


_COLLECTORS: "Final[WeakKeyDictionary[CollectorRegistry, _Clients]]" = WeakKeyDictionary()


def show(registry: "CollectorRegistry | None", client: object, read: Read) -> None:
    """Show the client's metrics in the registry until `hide`. Without a registry it does nothing."""
    if registry is None:
        return
    found = _COLLECTORS.get(registry)
    if found is None:
        found = _COLLECTORS[registry] = _Clients()
        registry.register(found)
    found.clients[client] = read


def hide(registry: "CollectorRegistry | None", client: object) -> None:
    found = None if registry is None else _COLLECTORS.get(registry)
    if found is not None:
        found.clients.pop(client, None)


def of_producer(run: "ProducerLoop") -> Iterator[Value]:
    who = (("client_id", run.brokers.settings.client_id),)
    core, counts = run.core, run.core.counts
    for name, text, value in (
        ("producer_records_sent_total", "Records that were delivered.", counts.records_sent),
        ("producer_records_failed_total", "Records that were not.", counts.records_failed),
        ("producer_bytes_sent_total", "Bytes of batches, each try of them.", counts.bytes_sent),
        ("producer_batches_sent_total", "Batches, each try of them.", counts.batches_sent),
        ("producer_batches_retried_total", "Batches that went again.", counts.batches_retried),
        ("producer_batches_split_total", "Batches that were too large.", counts.batches_split),
        (
            "producer_buffer_exhausted_records_total",
            "Records that found no room in buffer.memory within max.block.ms.",
            core.line.exhausted_count,
        ),
        (
            "producer_buffer_available_bytes",
            "What is free of buffer.memory.",
            core.accumulator.free_bytes,
        ),
        ("producer_buffer_total_bytes", "buffer.memory.", run.settings.buffer_memory),
        (
            "producer_waiting_bytes",
            "Records that wait for memory or metadata.",
            core.line.size_bytes,
        ),
        (
            "producer_batches_unfinished",
            "Batches that are not answered yet.",
            len(core.accumulator.unfinished),
        ),
    ):
        yield Value(name, text, value, who)
    for node_id, count in list(run.times.count.items()):
        took = (count, run.times.sum_s[node_id])
        labels = (*who, ("node", str(node_id)))
        yield Value("producer_request_seconds", "From a Produce to its answer.", took, labels)


def of_consumer(run: "ConsumerLoop") -> Iterator[Value]:
    who = (
        ("client_id", run.brokers.settings.client_id),
        ("group_id", run.settings.group_id or ""),
    )
    core = run.core
    yield Value("consumer_records_total", "Records that were handed out.", core.taken_count, who)
    yield Value("consumer_bytes_total", "Bytes that were fetched.", core.fetched_bytes, who)
    partitions = core.partitions
    yield Value("consumer_partitions", "Partitions that are read.", len(partitions), who)
    for partition in partitions:
        state = core.state(partition)
        if state is None or state.position < 0 or state.high_watermark < 0:
            continue
        place = (("topic", partition.topic), ("partition", str(partition.partition)))
        lag = max(0, state.high_watermark - state.position)
        text = "Offsets from the position to the high watermark."
        yield Value("consumer_lag", text, lag, (*who, *place))
    for node_id, count in list(run.fetches.times.count.items()):
        took = (count, run.fetches.times.sum_s[node_id])
        labels = (*who, ("node", str(node_id)))
        yield Value("consumer_fetch_seconds", "From a Fetch to its answer.", took, labels)
