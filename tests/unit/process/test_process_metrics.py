"""Metrics of a role on `/metrics`: read on the loop, left out when the loop does not come to it."""

import asyncio

from prometheus_client import CollectorRegistry, generate_latest

from oncelog.process import metrics as metrics_module
from oncelog.process.metrics import ProcessMetrics
from oncelog.process.role_metrics import counter, counters_by, gauge


async def test_role_metrics_are_shown_while_the_role_runs():
    shown = ProcessMetrics()
    registry = CollectorRegistry()
    registry.register(shown)
    loop = asyncio.get_running_loop()

    def read():
        assert asyncio.get_running_loop() is loop
        yield gauge("a_depth", "how deep", 7)
        yield counter("a_turns", "how often", 3)
        yield counters_by("a_decisions", "which", "decision", {"no": 2, "aye": 1})

    with shown.showing(read, lambda: True):
        text = (await asyncio.to_thread(generate_latest, registry)).decode()
    for line in (
        "a_depth 7.0",
        "a_turns_total 3.0",
        'a_decisions_total{decision="aye"} 1.0',
        'a_decisions_total{decision="no"} 2.0',
    ):
        assert line in text.splitlines()
    assert await asyncio.to_thread(generate_latest, registry) == b"", "the role has stopped"


async def test_a_loop_that_does_not_come_to_it_leaves_the_metrics_out(monkeypatch):
    monkeypatch.setattr(metrics_module, "ROLE_METRICS_TIMEOUT_S", 0.01)

    shown = ProcessMetrics()
    with shown.showing(lambda: [gauge("a_depth", "how deep", 7)], lambda: True):
        # Called by the loop's own thread, so the loop cannot come to it.
        assert list(shown.collect()) == []


async def test_ready_is_what_the_role_says_while_it_runs():
    shown = ProcessMetrics()

    async def status():
        return (await asyncio.to_thread(asyncio.run, shown.ready_page(""))).status

    assert await status() == 503
    is_ready = True
    with shown.showing(list, lambda: is_ready):
        assert await status() == 200
        is_ready = False
        assert await status() == 503
    assert await status() == 503
