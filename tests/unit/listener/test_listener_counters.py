"""Requests are counted by Kafka's names, and what a client makes up has one name in all."""

from oncelog_listener.counters import ListenerCounters, api_name
from oncelog_listener.role_metrics import listener_metrics


def test_requests_have_kafkas_names():
    assert [api_name(key) for key in (0, 1, 26, 20003)] == [
        "Produce",
        "Fetch",
        "EndTxn",
        "CommitBatch",
    ]


def test_a_client_that_makes_up_api_keys_makes_no_series():
    counters = ListenerCounters()
    for key in range(-1, 30_000, 7):
        counters.count_failure(key)
    assert counters.request_failures["unknown"] > 4_000
    assert len(counters.request_failures) < 40


def test_requests_and_their_latency_are_shown_by_name():
    counters = ListenerCounters()
    counters.count_request(0, 0.004)
    counters.count_request(0, 0.04)
    counters.count_request(1, 0.5)
    shown = {metric.name: metric for metric in listener_metrics(counters)}
    requests = shown["oncelog_listener_requests"]
    assert (requests.labels, dict(requests.samples)) == (
        ("api",),
        {("Produce",): 2, ("Fetch",): 1},
    )
    latencies = shown["oncelog_listener_request_seconds"].histograms
    assert round(latencies[("Produce",)].sum_s, 3) == 0.044
