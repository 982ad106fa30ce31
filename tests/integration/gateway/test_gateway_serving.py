"""Starting, stopping, probes, metrics, pages, topics."""

import asyncio
import http.client
import socket
import subprocess
import sys

import pytest
from tests.integration.gateway.gateway_cluster import gateway_cluster

from oncelog.api.v1 import coordinator_pb2
from oncelog.errors import ErrorCode, OncelogError
from oncelog.rpc.metadata import MetadataFollower
from oncelog_gateway import wiring
from oncelog_gateway.settings import GatewaySettings
from oncelog_gateway.wiring import build_gateway


async def test_a_port_in_use_is_named_with_the_way_out():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        gateway = build_gateway(GatewaySettings(port=port), None, None)
        with pytest.raises(OncelogError, match=f"port {port} .* in use; .*--gateway-port"):
            await gateway.start()


async def test_an_address_that_is_not_here_is_named():
    gateway = build_gateway(
        GatewaySettings(host="nowhere.invalid", port=0, authentication="none"), None, None
    )
    with pytest.raises(OncelogError, match=r"nowhere\.invalid.*--host"):
        await gateway.start()


def test_all_is_imported_after_the_start_and_before_a_request(tmp_path):
    script = (
        "import asyncio, sys\n"
        "from oncelog_gateway.settings import GatewaySettings\n"
        "from oncelog_gateway.wiring import build_gateway\n"
        "from oncelog.rpc.metadata import MetadataFollower\n"
        "heavy = {'fastapi', 'uvicorn', 'jinja2', 'prometheus_client', 'grpc'}\n"
        "async def go():\n"
        "    gateway = build_gateway(GatewaySettings(port=0), MetadataFollower(1, None), None)\n"
        "    await gateway.start()\n"
        "    assert gateway.port > 0\n"
        "    assert not heavy & set(sys.modules)\n"
        "    while 'oncelog_gateway.http_connection' not in sys.modules:\n"
        "        await asyncio.sleep(0.01)\n"
        "    await gateway.stop()\n"
        "asyncio.run(go())\n"
        "assert 'grpc' not in sys.modules\n"
    )

    command = [sys.executable, "-c", script]
    assert subprocess.run(command, cwd=tmp_path, check=False, timeout=120).returncode == 0


def test_beside_other_roles_nothing_is_imported_before_a_request(tmp_path):
    script = (
        "import asyncio, sys\n"
        "from oncelog_gateway.settings import GatewaySettings\n"
        "from oncelog_gateway.wiring import build_gateway\n"
        "from oncelog.rpc.metadata import MetadataFollower\n"
        "async def go():\n"
        "    follower = MetadataFollower(1, None)\n"
        "    silent = build_gateway(GatewaySettings(port=0), follower, None, waits_for_client=True)\n"
        "    asked = build_gateway(GatewaySettings(port=0), follower, None, waits_for_client=True)\n"
        "    await silent.start()\n"
        "    await silent.stop()\n"
        "    await asked.start()\n"
        "    assert not {'fastapi', 'uvicorn', 'jinja2'} & set(sys.modules)\n"
        "    reader, writer = await asyncio.open_connection('127.0.0.1', asked.port)\n"
        "    writer.write(b'GET /health HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')\n"
        "    assert b'200 OK' in await reader.readline()\n"
        "    writer.close()\n"
        "    await asked.stop()\n"
        "asyncio.run(go())\n"
    )
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, cwd=tmp_path, check=False, timeout=120).returncode == 0


async def test_stopping_does_not_wait_for_idle_or_hanging_clients(tmp_path):
    async with gateway_cluster(
        tmp_path, call_timeout_ms=60_000, shutdown_timeout_ms=1_000
    ) as cluster:
        cluster.coordinator.is_silent = True
        _, idle = await asyncio.open_connection("127.0.0.1", cluster.port)
        reader, writer = await asyncio.open_connection("127.0.0.1", cluster.port)
        writer.write(b"GET /v1/transactions HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await cluster.get("/health")).status == 200
    assert await reader.read() is not None
    writer.close()
    idle.close()


async def test_probes_tell_alive_from_ready(cluster):
    await cluster.create_topic("orders")
    assert (await cluster.get("/health")).json == {"status": "alive"}
    assert (await cluster.get("/ready")).json["ready"] is True
    cluster.coordinator.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    answer = await cluster.get("/ready")
    assert answer.status == 503
    assert {check["name"]: check["ok"] for check in answer.json["checks"]} == {
        "metadata": True,
        "storage": True,
        "coordinator": False,
    }
    answer = await cluster.get("/v1/transactions")
    assert (answer.status, answer.json["kafka_error_code"]) == (503, 14)
    assert answer.headers["retry-after"] == "1"


def heads(port, path, **headers):
    """(status, headers) by HEAD and by GET, on one connection: a body behind a HEAD would be the next answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    found = []
    for method in ("HEAD", "GET"):
        connection.request(method, path, headers={"Accept": "text/html", **headers})
        answer = connection.getresponse()
        size_bytes = len(answer.read())
        told = {name.lower(): value for name, value in answer.getheaders()}
        assert size_bytes == (0 if method == "HEAD" else int(told["content-length"]))
        found.append((answer.status, {**told, "date": "", "content-length": ""}))
    connection.close()
    return found


@pytest.mark.parametrize(
    "path",
    ["/", "/health", "/docs", "/console.css", "/openapi.json", "/v1/topics", "/v1/topics/none"],
)
async def test_head_is_answered_as_get_without_a_body(cluster, path):
    by_head, by_get = await asyncio.to_thread(heads, cluster.port, path)
    assert by_head == by_get


async def test_head_of_a_stream_ends(cluster):
    def ask():
        connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=60)
        connection.request("HEAD", "/v1/events", headers={"Accept": "text/event-stream"})
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
        assert answer.getheader("content-type").startswith("text/event-stream")
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()

    await asyncio.to_thread(ask)


async def test_head_of_what_only_takes_post_is_refused(cluster):
    status, headers = (
        await asyncio.to_thread(heads, cluster.port, "/v1/transactions/pay/terminate")
    )[0]
    assert (status, headers["allow"]) == (405, "POST")


async def test_metrics_follow_the_cluster_and_the_requests(tmp_path):
    async with gateway_cluster(tmp_path, call_timeout_ms=1_000) as cluster:
        await cluster.create_topic("orders")
        cluster.coordinator.put("pay", producer_id=1, partitions=[("orders", 0)])
        cluster.storage.open_transaction("orders", 0, producer_id=2, start_offset=40)
        await cluster.get("/v1/transactions/nobody")
        text = (await cluster.get("/metrics")).body.decode()
        for line in (
            'oncelog_transactions{state="Ongoing"} 1.0',
            "oncelog_late_transactions 1.0",
            'oncelog_partition_lso_lag{partition="0",topic="orders"} 60.0',
            'oncelog_partition_lso_held_by_hanging_transaction{partition="0",topic="orders"} 1.0',
            'route="/v1/transactions/{transactional_id:path}",status="404"} 1.0',
        ):
            assert line in text, line
        cluster.storage.is_silent = cluster.coordinator.is_silent = True
        text = (await cluster.get("/metrics")).body.decode()
        assert "oncelog_coordinators_silent 1.0" in text
        assert 'oncelog_partition_lso_lag{partition="0",topic="orders"}' not in text


async def test_group_lag_is_summed_by_topic_and_bounded(tmp_path):
    async with gateway_cluster(tmp_path, metrics_groups_max=2) as cluster:
        await cluster.create_topic("orders", 2)
        for name in ("a", "b", "c"):
            cluster.groups.put(name)
            cluster.groups.offsets[name] = {("orders", 0): 40, ("orders", 1): 90, ("gone", 0): 1}
        text = (await cluster.get("/metrics")).body.decode()
        assert 'oncelog_group_lag{group="a",topic="orders"} 70.0' in text
        assert 'oncelog_group_lag{group="b",topic="orders"} 70.0' in text
        assert 'group="c"' not in text
        assert 'topic="gone"' not in text
        assert "oncelog_groups_not_shown 1.0" in text


async def test_an_internal_partition_has_series_while_its_lso_is_held(cluster):
    await cluster.create_topic("orders")
    assert 'topic="__' not in (await cluster.get("/metrics")).body.decode()
    cluster.storage.open_transaction("__consumer_offsets", 3, producer_id=2, start_offset=40)
    text = (await cluster.get("/metrics")).body.decode()
    assert 'oncelog_partition_lso_lag{partition="3",topic="__consumer_offsets"} 60.0' in text
    assert text.count("lso_lag{partition=") == 2


async def test_partitions_beyond_the_limit_have_no_series(tmp_path):
    async with gateway_cluster(
        tmp_path, metrics_partitions_max=3, metrics_internal_partitions=True
    ) as cluster:
        text = (await cluster.get("/metrics")).body.decode()
        assert "oncelog_partitions_not_shown 97.0" in text
        assert text.count("oncelog_partition_log_end_offset{") == 3


async def test_pages_escape_what_clients_named(cluster):
    await cluster.create_topic("orders")
    cluster.coordinator.put("<script>alert(1)</script>", producer_id=1, partitions=[("orders", 0)])
    cluster.storage.open_transaction("orders", 0, producer_id=2, start_offset=40)
    answer = await cluster.get("/")
    page = answer.body.decode()
    assert answer.status == 200
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "orders-0</a> is held by a hanging transaction" in page
    assert "<code>oncelog transactions abort --topic orders --partition 0 --start-offset" in page
    partition = (await cluster.get("/partition?topic=orders&partition=0")).body.decode()
    assert "oncelog transactions abort --topic orders --partition 0 --start-offset" in partition
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    reference = (await cluster.get("/docs")).body.decode()
    for path in (
        "/v1/transactions/abort",
        "/v1/partitions/{topic}/{partition}",
        "start_offset",
    ):
        assert path in reference
    assert "https://" not in page + reference


async def test_what_there_is_one_of_is_in_the_singular(cluster):
    await cluster.create_topic("orders")
    for producer_id, tile in enumerate(
        ("open transactions", "open transaction", "open transactions")
    ):
        page = (await cluster.get("/")).body.decode()
        rest = ", the oldest" if producer_id else "</span>"
        assert f'<b>{producer_id}</b><span class="soft">{tile}{rest}' in page
        cluster.coordinator.put(
            f"pay-{producer_id}", producer_id=producer_id, partitions=[("orders", 0)]
        )


async def test_pages_are_shown_when_no_role_answers(tmp_path):
    async with gateway_cluster(tmp_path, call_timeout_ms=1_000) as cluster:
        await cluster.create_topic("orders")
        cluster.storage.is_silent = cluster.coordinator.is_silent = True
        page = (await cluster.get("/")).body.decode()
        assert "whether a transaction hangs or is late is not known" in page
        assert "REQUEST_TIMED_OUT" in page


async def test_topics_are_made_described_and_deleted(cluster):
    body = {"name": "a.b", "partition_count": 2, "configs": {"cleanup.policy": ["compact"]}}
    shown = await cluster.post("/v1/topics", {**body, "dry_run": True})
    assert (shown.status, shown.json["topic_id"]) == (201, None)
    assert (await cluster.get("/v1/topics/a.b")).status == 404
    made = await cluster.post("/v1/topics", body)
    assert made.headers["location"] == "/v1/topics/a.b"
    again = await cluster.post("/v1/topics", body)
    assert (again.status, again.json["kafka_error_name"]) == (409, "TOPIC_ALREADY_EXISTS")
    detail = (await cluster.get("/v1/topics/a.b")).json
    assert (detail["partition_count"], detail["configs"]) == (
        2,
        {"cleanup.policy": ["compact"]},
    )
    assert {"name", "value", "is_default", "doc"} == set(detail["all_configs"][0])
    listed = (await cluster.get("/v1/topics?internal=false")).json
    assert [one["name"] for one in listed["topics"]] == ["a.b"]
    assert (await cluster.request("DELETE", "/v1/topics/a.b")).status == 204
    assert (await cluster.get("/v1/topics?internal=false")).json["total"] == 0
    assert (await cluster.request("DELETE", "/v1/topics/a.b")).status == 404
    refused = await cluster.request("DELETE", "/v1/topics/__transaction_state")
    assert refused.status == 409


async def test_the_cluster_and_a_sink_are_described(cluster):
    status = (await cluster.get("/v1/cluster")).json
    assert status["features"]["transaction.version"] == 2
    assert status["nodes"][0]["roles"] == [
        "storage",
        "coordinator",
        "listener",
        "marker_sender",
    ]
    assert (await cluster.get("/v1/sinks/revenue/daily")).status == 404
    cluster.coordinator.sinks["revenue/daily"] = coordinator_pb2.DescribeSinkResponse(
        sink="revenue/daily",
        query_id="q",
        last_committed_batch_id=-1,
        attempts=[
            coordinator_pb2.DescribeSinkResponse.Attempt(
                nonce=b"\x01\xff",
                batch_id=3,
                state="Open",
                branches=[coordinator_pb2.DescribeSinkResponse.Branch(producer_id=9)],
            )
        ],
    )
    sink = (await cluster.get("/v1/sinks/revenue/daily")).json
    assert sink["last_committed_batch_id"] is None
    assert sink["attempts"][0]["nonce"] == "01ff"
    assert sink["attempts"][0]["branches"][0]["producer_id"] == 9

    cluster.coordinator.sinks["a"] = coordinator_pb2.DescribeSinkResponse(sink="a")
    page = (await cluster.get("/v1/sinks?limit=1")).json
    assert (page["total"], [one["sink"] for one in page["sinks"]]) == (2, ["a"])
    assert page["sinks"][0]["last_used_time_ms"] is None
    refused = await cluster.request("DELETE", "/v1/sinks/revenue/daily")
    assert (refused.status, refused.json["detail"]) == (409, "being written to")
    assert (await cluster.request("DELETE", "/v1/sinks/a")).status == 204
    lines = cluster.audit()
    assert [one["event"] for one in lines] == ["attempted", "ended"] * 2
    assert [one.get("outcome") for one in lines] == [None, "refused", None, "done"]
    assert lines[2]["target"] == {"sink": "a"}


async def test_a_page_of_another_site_changes_nothing(cluster):
    await cluster.create_topic("orders")
    cluster.coordinator.put("pay", producer_id=1, partitions=[("orders", 0)])
    path = "/v1/transactions/pay/terminate"
    act = b'{"dry_run": false}'
    answer = await cluster.request("POST", path, act, {"Origin": "https://example.org"})
    assert answer.status == 403
    assert cluster.coordinator.transactions["pay"].state == "Ongoing"
    answer = await cluster.request("POST", path, act, {"Origin": cluster.url})
    assert answer.status == 200
    assert answer.json["terminated"] is True


async def test_what_is_not_json_or_too_large_is_refused(tmp_path):
    async with gateway_cluster(tmp_path, request_bytes_max=1024) as cluster:
        answer = await cluster.post("/v1/topics", b"{")
        assert (answer.status, answer.headers["content-type"]) == (422, "application/problem+json")
        answer = await cluster.post("/v1/topics", b'{"name": "\\ud800"}')
        assert answer.status == 422
        answer = await cluster.post("/v1/topics", b" " * 2000)
        assert answer.status == 413
        answer = await cluster.get("/v2/topics")
        assert (answer.status, answer.json["title"]) == (404, "Not Found")
        answer = await cluster.request("PATCH", "/v1/topics")
        assert (answer.status, answer.headers["allow"]) == (405, "GET, POST")


async def test_readiness_is_checked_once_for_all_who_ask(tmp_path):
    async with gateway_cluster(tmp_path, call_timeout_ms=1_000) as cluster:
        calls = []
        cluster.coordinator.meanwhile = lambda: calls.append(1)
        cluster.coordinator.is_silent = True
        answers = await asyncio.gather(*(cluster.get("/ready") for _ in range(5)))
        assert [one.status for one in answers] == [503] * 5
        assert len(calls) == 1


async def test_a_gateway_that_does_not_tick_ends_at_once(monkeypatch):
    """Nothing wakes an idle gateway but its `Date` header."""
    monkeypatch.setattr(wiring, "DATE_HEADER_S", 600)
    settings = GatewaySettings(port=0, authentication="none")
    gateway = build_gateway(settings, MetadataFollower(1, None), None)
    await gateway.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert b"\r\ndate: " in await reader.read()
    writer.close()
    async with asyncio.timeout(60):
        await gateway.stop()
