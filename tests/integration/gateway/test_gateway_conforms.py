"""The API keeps the promises of its own OpenAPI document, for inputs that a machine thinks up.

Schemathesis with its default checks: examples, coverage of every bound, fuzzing, and chains of calls.
"""

import asyncio
import sys

from tests.integration.gateway.gateway_cluster import gateway_cluster

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

# A group may be called `billing/offsets`, and DELETE of it is declared.
[[operations]]
include-path = "/v1/groups/{group_id}/offsets"
checks.unsupported_method.enabled = false
"""


async def _schemathesis(url, folder):
    (folder / "schemathesis.toml").write_text(CONFIG)
    arguments = (
        "run",
        f"{url}/openapi.json",
        "--max-examples",
        str(EXAMPLES_MAX),
        "--seed",
        "7",
        "--no-color",
    )
    program = "from schemathesis.cli import schemathesis; schemathesis()"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        *arguments,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


def test_every_answer_is_as_documented(tmp_path, capfd):
    async def scenario():
        async with gateway_cluster(tmp_path) as cluster:
            await cluster.create_topic("orders", 2)
            cluster.coordinator.put("payments", producer_id=4, partitions=[("orders", 0)])
            cluster.coordinator.put("sink/orders/12/0", producer_id=9, state="CompleteCommit")
            cluster.groups.put("billing", state="Stable", members=[("m-1", b"odd")])
            cluster.groups.put("a/b")
            cluster.groups.offsets["a/b"] = {("orders", 0): 7, ("gone", 1): 3}
            cluster.storage.open_transaction("orders", 0, producer_id=4, start_offset=42)
            cluster.storage.open_transaction("orders", 1, producer_id=77, start_offset=0)
            cluster.coordinator.sinks["totals"] = coordinator_pb2.DescribeSinkResponse(
                sink="totals"
            )
            return await _schemathesis(cluster.url, tmp_path)

    code, output = asyncio.run(scenario())
    assert code == 0, output[-6000:]
    assert "Traceback" not in capfd.readouterr().err
