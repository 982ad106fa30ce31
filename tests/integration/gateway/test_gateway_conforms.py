"""The API keeps the promises of its own OpenAPI document, for inputs that a machine thinks up.

Schemathesis with its default checks: examples, coverage of every bound, fuzzing, and chains of calls.
"""

import asyncio
import sys

import pytest
from tests.integration.gateway.gateway_cluster import gateway_cluster

EXAMPLES_MAX = 20


async def _schemathesis(url, folder):
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


@pytest.mark.slow
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
            return await _schemathesis(cluster.url, tmp_path)

    code, output = asyncio.run(scenario())
    assert code == 0, output[-6000:]
    assert "Traceback" not in capfd.readouterr().err
