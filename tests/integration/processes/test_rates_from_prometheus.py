"""The page of rates with a Prometheus beside it: its history where the gateway's memory is too short, and a line that
says so when it is away."""

import os
import shutil
import subprocess
import time
import urllib.request

import pytest
from confluent_kafka import Producer
from tests.free_ports import free_block

from oncelog_server.demo.processes import OncelogServer

PROMETHEUS = os.environ.get("ONCELOG_TEST_PROMETHEUS") or shutil.which("prometheus")
DEADLINE_S = 90
WITHIN_S = 5
"""A page has 1.8 s for all whom it asks; the rest is for a busy machine."""
CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - {{job_name: oncelog, static_configs: [{{targets: ["{target}"]}}]}}
"""


def page(gateway, query=""):
    began = time.monotonic()
    with urllib.request.urlopen(f"{gateway}/rates{query}", timeout=10) as answer:
        return answer.read().decode(), time.monotonic() - began


@pytest.mark.timeout(180)
@pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus: set ONCELOG_TEST_PROMETHEUS")
def test_a_week_comes_from_prometheus(tmp_path):
    url = f"http://127.0.0.1:{free_block(1)[0]}"
    environment = {"ONCELOG_GATEWAY_PROMETHEUS_URL": url}
    with OncelogServer(tmp_path / "data", environment=environment) as log:
        config = tmp_path / "prometheus.yml"
        config.write_text(CONFIG.format(target=log.gateway.removeprefix("http://")))
        command = [
            *(PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"),
            f"--web.listen-address={url.removeprefix('http://')}",
        ]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as prometheus:
            try:
                producer = Producer({"bootstrap.servers": log.bootstrap})
                deadline = time.monotonic() + DEADLINE_S
                while True:
                    producer.produce("orders", b"x" * 1_000)
                    producer.flush(10)
                    text, _ = page(log.gateway, "?minutes=10080")
                    if "From Prometheus at" in text and 'id="chart-produced_bytes"' in text:
                        break
                    assert time.monotonic() < deadline, text
                    time.sleep(0.5)  # Prometheus scrapes each second.
                assert 'href="/topic?name=orders"' in text
                assert 'href="/rates?minutes=10080" aria-current' in text
            finally:
                prometheus.terminate()


def test_a_prometheus_that_is_away_costs_a_line(tmp_path):
    url = f"http://127.0.0.1:{free_block(1)[0]}"
    environment = {"ONCELOG_GATEWAY_PROMETHEUS_URL": url}
    with OncelogServer(tmp_path / "data", environment=environment) as log:
        page(log.gateway)
        text, took_s = page(log.gateway, "?minutes=1440")
        assert f"Prometheus at {url} " in text
        assert "What this gateway remembers itself is shown" in text
        assert took_s < WITHIN_S
