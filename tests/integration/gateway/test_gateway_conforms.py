"""The API keeps the promises of its own OpenAPI document, for inputs that a machine thinks up.

Schemathesis with its default checks: examples, coverage of every bound, fuzzing, and chains of calls.
"""

import asyncio
import logging
import subprocess
import sys

import pytest

from oncelog.api.v1 import coordinator_pb2

EXAMPLES_MAX = 4


CONFIG = """
[checks]
# 431: what breaks maxLength may be longer than a whole head may be.
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 415, 422, 428, 429, 431, "5xx"]

# Configs that contradict each other (min.compaction.lag.ms above max.compaction.lag.ms) are 422; no schema can say so.
[[operations]]
include-name = "PATCH /v1/topics/{name}/configs"
checks.positive_data_acceptance.expected-statuses = ["2xx", 403, 404, 409, 422, "5xx"]

[[operations]]
include-name = "POST /v1/topics"
checks.positive_data_acceptance.expected-statuses = ["2xx", 403, 404, 409, 422, "5xx"]

# A partition needs its topic; no schema of one parameter can say so.
[[operations]]
include-name = "GET /v1/hanging-transactions"
checks.positive_data_acceptance.expected-statuses = ["2xx", 403, 404, 409, 422, "5xx"]

# What a subject must look like depends on its kind.
[[operations]]
include-name = "GET /v1/explain"
checks.positive_data_acceptance.expected-statuses = ["2xx", 403, 404, 409, 422, "5xx"]

# `from` takes a word, an offset or a time, and an offset must be one of the log; a cursor is one of an answer before.
[[operations]]
include-name = "GET /v1/topics/{name}/records"
checks.positive_data_acceptance.expected-statuses = ["2xx", 403, 404, 409, 422, "5xx"]

# A group may be called `billing/offsets`, and DELETE of it is declared.
[[operations]]
include-path = "/v1/groups/{group_id}/offsets"
checks.unsupported_method.enabled = false
"""


async def _schemathesis(url, folder):
    (folder / "schemathesis.toml").write_text(CONFIG)
    program = "from schemathesis.cli import schemathesis; schemathesis()"
    command = [sys.executable, "-c", program, "run", f"{url}/openapi.json", "--no-color"]
    command += ["--max-examples", str(EXAMPLES_MAX), "--seed", "7", "--request-timeout", "60"]
    return await asyncio.to_thread(
        subprocess.run, command, cwd=folder, capture_output=True, text=True, check=False
    )


# Thousands of requests; alone on a machine it takes half a minute.
@pytest.mark.timeout(900)
async def test_every_answer_is_as_documented(cluster, tmp_path, capfd, monkeypatch):
    # A handler that another test of this process left has a closed stream, and logging would write a traceback of that.
    monkeypatch.setattr(logging, "raiseExceptions", False)
    await cluster.create_topic("orders", 2)
    cluster.coordinator.put("payments", producer_id=4, partitions=[("orders", 0)])
    cluster.coordinator.put("sink/orders/12/0", producer_id=9, state="CompleteCommit")
    cluster.groups.put("billing", state="Stable", members=[("m-1", b"odd")])
    cluster.groups.put("a/b")
    cluster.groups.offsets["a/b"] = {("orders", 0): 7, ("gone", 1): 3}
    cluster.storage.open_transaction("orders", 0, producer_id=4, start_offset=42)
    cluster.storage.open_transaction("orders", 1, producer_id=77, start_offset=0)
    cluster.coordinator.sinks["totals"] = coordinator_pb2.DescribeSinkResponse(sink="totals")
    # It is made at the first request, and Schemathesis waits ten seconds for it.
    assert (await cluster.get("/openapi.json")).status == 200
    done = await _schemathesis(cluster.url, tmp_path)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "Traceback" not in capfd.readouterr().err
