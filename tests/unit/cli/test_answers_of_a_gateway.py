"""What commands make of a gateway's answers that are hard to bring about: a transaction that hangs or holds many."""

import json

from oncelog.ids import Millis, Partition
from oncelog_gateway.core.held_back import Holder
from oncelog_gateway.core.node_troubles import Queue, Seen
from oncelog_gateway.core.overview import OverviewFacts, verdict_of
from oncelog_gateway.core.transaction_troubles import Hang
from oncelog_gateway.core.trouble import Since
from oncelog_gateway.overview_resources import health_of
from oncelog_server.cli import run


def hanging(offset, idle_ms):
    return {
        "topic": "orders",
        "partition": 0,
        "start_offset": offset,
        "producer_id": 5,
        "producer_epoch": 1,
        "coordinator_epoch": 4,
        "last_timestamp_ms": None if idle_ms is None else 1_700_000_000_000,
        "idle_ms": idle_ms,
        "transactional_id": None,
        "abort": f"abort {offset}",
    }


def found_hanging(*rows, hidden=0, total=None):
    return {
        "hanging": list(rows),
        "total": len(rows) if total is None else total,
        "hidden_count": hidden,
        "open_transactions": len(rows) + hidden,
        "checked_partitions": 4,
        "incomplete": [],
    }


def test_a_hanging_transaction_that_a_filter_hides_is_told_of(gateway, capsys):
    command = ["transactions", "find-hanging", "--gateway", gateway.url]
    gateway.answers["/v1/hanging-transactions"] = found_hanging(hidden=1)
    assert run([*command, "--min-idle-ms", "60000"]) == 0
    said = capsys.readouterr().out
    assert "Nothing hangs" not in said
    assert "1 hangs but was hidden by --min-idle-ms 60000" in said
    assert run([*command, "--min-idle-ms", "60000", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["hidden_count"] == 1
    gateway.answers["/v1/hanging-transactions"] = found_hanging(hanging(7, 9_000), hidden=2)
    assert run([*command, "--min-idle-ms", "5", "--max-transaction-timeout", "15"]) == 0
    said = capsys.readouterr().out
    assert "2 more hang but were hidden by --min-idle-ms 5 --max-transaction-timeout 15" in said
    assert "abort 7" in said


def test_the_table_has_the_columns_of_kafkas_find_hanging(gateway, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    gateway.answers["/v1/hanging-transactions"] = found_hanging(
        hanging(7, 9_000), hanging(8, None), total=5
    )
    assert run(["transactions", "find-hanging", "--gateway", gateway.url]) == 0
    said = capsys.readouterr().out
    for title in ("start offset", "coord epoch", "last record", "duration"):
        assert title in said
    assert "2023-11-14 22:13:20Z" in said
    # Of a transaction whose records have no timestamp, no filter and no table makes an error.
    assert "abort 8" in said
    assert "3 more hanging transactions did not fit" in said


def test_the_transaction_behind_an_unstable_offset_is_named(gateway, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    held = {"transactional_id": "pay", "producer_id": 4, "coordinator_state": "Ongoing"}
    nobody = {"transactional_id": None, "producer_id": 5, "coordinator_state": None}
    behind = {"records": 4, "aborted": 1, "markers": 1, "is_whole": False}
    row = {"topic": "orders", "partition": 0, "offset": 3, "log_end_offset": 9, "lag": 6}
    gateway.answers["/v1/groups/billing/offsets"] = {
        "offsets": [{**row, "metadata": "m", "behind": behind, "unstable_by": [held, nobody]}],
        "total_lag": 6,
    }
    assert run(["groups", "offsets", "billing", "--gateway", gateway.url]) == 0
    said = capsys.readouterr().out
    assert "4+" in said
    assert "unstable: pay, Ongoing; unstable: producer 5, unknown to every coordinator; m" in said


HANGING = {
    "transactional_id": None,
    "producer_id": 4711,
    "age_ms": None,
    "idle_ms": 7_200_000,
    "hanging": True,
}


def test_a_blocked_group_is_told_in_80_columns(gateway, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    words = "blocked by a hanging transaction of producer 4711 for at least 2 h"
    row = {"topic": "orders", "partition": 0, "offset": 1200, "log_end_offset": 1540, "lag": 340}
    gateway.answers["/v1/groups/billing/offsets"] = {
        "group_id": "billing",
        "offsets": [
            {
                **row,
                "metadata": "",
                "behind": None,
                "unstable_by": [],
                "held_back": 339,
                "held_by": HANGING,
                "is_blocked": True,
            }
        ],
        "total_lag": 340,
        "total_readable": 1,
        "total_held_back": 339,
        "blocked_by": HANGING,
        "stands": words,
    }
    gateway.answers["/v1/groups"] = {
        "groups": [{"group_id": "billing", "state": "Stable", "protocol_type": "consumer"}],
        "total": 1,
        "incomplete": [],
    }
    for command in ("list", "offsets billing"):
        assert run(["groups", *command.split(), "--gateway", gateway.url]) == 0
        said = capsys.readouterr().out
        table = said.partition("offsets behind")[0].splitlines()[
            : None if command == "list" else -1
        ]
        assert max(map(len, table)) <= 80, said
        for word in ("hanging", "4711", "340"):
            assert word in "".join(table), said
    assert f"339 of them held back by open transactions; {words}: oncelog" in said
    assert "oncelog transactions explain billing" in said


def test_advice_is_given_once_for_a_transaction(gateway, capsys):
    advice = "its producer will end it: oncelog transactions terminate pay"
    gateway.answers["/v1/topics/orders/partitions"] = {
        "partitions": [
            {
                "topic": "orders",
                "partition": one,
                "leader": 1,
                "replicas": [1],
                "isr": [1],
                "last_stable_offset": 0,
                "high_watermark": 1,
                "lso_lag": 1,
                "failure": None,
                "lso_holder": {
                    "transactional_id": "pay",
                    "producer_id": 5,
                    "hanging": False,
                    "coordinator_state": "Ongoing",
                    "idle_ms": 1,
                    "age_ms": 1,
                    "advice": advice,
                },
            }
            for one in range(12)
        ]
    }
    assert run(["partitions", "orders", "--gateway", gateway.url]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.count(advice) == 1
    assert "orders-0, orders-1, orders-2, orders-3, orders-4 and 7 more: its producer" in said


OFFLINE = {
    "topic": "orders",
    "partition": 0,
    "leader": 3,
    "replicas": [3],
    "isr": [3],
    "under_replicated": False,
    "high_watermark": None,
    "last_stable_offset": None,
    "lso_lag": None,
    "lso_holder": None,
    "failure": {"kafka_error_name": "KAFKA_STORAGE_ERROR", "detail": "node 3 about orders-0"},
}


def test_the_way_out_of_an_offline_partition_is_named(gateway, capsys):
    gateway.answers["/v1/partitions"] = {"partitions": [OFFLINE]}
    assert run(["partitions", "--gateway", gateway.url]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "orders-0 is offline; the log of node 3 says why" in said
    assert "oncelog storage repair" in said


def test_every_row_of_health_that_is_not_ok_names_a_command(gateway, capsys):
    facts = OverviewFacts(
        hanging=[
            Hang(
                Partition("orders", 1),
                Holder(None, 77, None, 5_000, True),
                start_offset=3,
                producer_epoch=0,
                held_back=9,
            )
        ],
        leaderless=[Seen("orders-2")],
        unanswered=[Seen("orders-0", nodes=(3,), what="KAFKA_STORAGE_ERROR")],
        unowned=[Seen("transaction shards 0–3")],
        fenced=[Seen("node 2", Since(60_000, True), what="storage")],
        silent={"groups": ["node 4 did not answer"]},
        queues=[Queue(2, 1, 60_000)],
    )
    health = health_of(verdict_of(facts), Millis(1_000_000))
    gateway.answers["/v1/cluster/health"] = health.model_dump(mode="json")
    command = ["health", "--bootstrap", "127.0.0.1:1", "-o", "json", "--gateway"]
    assert run([*command, gateway.url]) == 1
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert not any(one["ok"] for one in found.values())
    assert all("oncelog " in one["detail"] for one in found.values()), found
    assert "oncelog storage repair" in found["partitions"]["detail"]
    assert "node 2 (storage) is out of service" in found["nodes"]["detail"]
    assert "(for at least 1 min)" in found["nodes"]["detail"]
    assert "oncelog transactions abort --topic orders" in found["transactions"]["detail"]
    assert run([*command, "http://127.0.0.1:1"]) == 1
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert "oncelog health --gateway URL" in found["gateway"]["detail"]


def test_a_node_comes_back_into_service(gateway, capsys):
    gateway.answers["/v1/nodes/4/drain"] = {"node": {"node_id": 4}}
    assert run(["nodes", "undrain", "4", "--gateway", gateway.url]) == 0
    assert "node 4 is in service again" in capsys.readouterr().out
