"""`oncelog groups` and `oncelog consume --group` against a running `oncelog up`."""

import json
import re
import signal
import subprocess
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.conformance.group_members import Member, eventually
from tests.integration.cli.commands import ONCELOG


def offsets(oncelog, group):
    found = json.loads(oncelog("groups", "offsets", group, "-o", "json"))
    return {one["partition"]: (one["offset"], one["lag"]) for one in found["offsets"]}


def test_a_group_lives_through_every_command(oncelog, server):
    assert "No groups yet" in oncelog("groups", "list")
    oncelog("topics", "create", "orders", "--partitions", "2")
    oncelog("produce", "orders", "--partition", "0", stdin="a\nb\nc\n")

    read = ("consume", "orders", "--group", "billing", "--values-only")
    assert oncelog(*read, "-n", "2") == "a\nb\n"
    assert oncelog(*read) == "c\n", "it goes on where it stood"
    assert oncelog(*read) == ""
    assert offsets(oncelog, "billing") == {0: (3, 0)}
    assert "0 offsets behind" in oncelog("groups", "offsets", "billing")

    move = ("groups", "reset-offsets", "billing", "--topic", "orders", "--to", "1")
    assert "nothing was moved" in oncelog(*move)
    assert offsets(oncelog, "billing") == {0: (3, 0)}
    oncelog(*move, "--execute")
    assert offsets(oncelog, "billing") == {0: (1, 2), 1: (0, 0)}
    assert oncelog(*read) == "b\nc\n"

    member = Member(
        "confluent-kafka", server.bootstrap, "billing", "orders", session_timeout_ms=6_000
    )
    try:
        eventually(lambda: len(member.assigned) == 2)
        shown = oncelog("groups", "describe", "billing")
        assert "Stable" in shown
        assert "orders 0-1" in shown
        assert max(map(len, shown.splitlines())) <= 80
        assert "Stable" in oncelog("groups", "list")
        assert "has members" in oncelog("groups", "delete", "billing", "--yes", code=1)
        refused = oncelog(*move, "--execute", code=1)
        assert "UNKNOWN_MEMBER_ID" in refused
    finally:
        member.close()
    assert "Nothing was changed." in oncelog("groups", "delete", "billing", code=1)
    oncelog("groups", "delete", "billing", "--yes")
    for command in ("describe", "offsets"):
        assert "there is no group 'billing'" in oncelog("groups", command, "billing", code=1)


def test_ctrl_c_commits_what_was_printed(oncelog):
    oncelog("topics", "create", "stopped")
    oncelog("produce", "stopped", stdin="a\nb\n")
    read = ("consume", "stopped", "--group", "stoppers", "--values-only")
    command = [*ONCELOG, *read, "--follow"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=oncelog.environment
    ) as process:
        try:
            assert [process.stdout.readline() for _ in "ab"] == ["a\n", "b\n"]
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            assert process.stderr.read() == ""
        finally:
            process.kill()
    assert offsets(oncelog, "stoppers") == {0: (2, 0)}
    assert oncelog(*read) == ""


def test_a_member_is_not_told_where_to_begin(oncelog):
    refused = oncelog("consume", "orders", "--group", "g", "--offset", "3", code=2)
    assert "reset-offsets" in " ".join(refused.split())
    assert "neither" in oncelog("groups", "reset-offsets", "g", "--topic", "t", "--to", "x", code=2)


def test_records_behind_are_told_from_markers_and_aborted_ones(oncelog, server):
    oncelog("topics", "create", "counted")
    oncelog("produce", "counted", stdin="a\n")
    assert oncelog("consume", "counted", "--group", "counters", "--values-only") == "a\n"
    producer = Producer(
        {"bootstrap.servers": server.bootstrap, "transactional.id": "pay", "log_level": 0}
    )
    producer.init_transactions(20)
    for values, ends in (("bc", "commit"), ("d", "abort"), ("e", None)):
        producer.begin_transaction()
        for value in values:
            producer.produce("counted", value)
        producer.flush(20)
        if ends == "commit":
            producer.commit_transaction(20)
        elif ends == "abort":
            producer.abort_transaction(20)
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": "counters", "log_level": 0}
    )
    group = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition("counted", 0, 3)], group, 20)
    consumer.close()
    found = json.loads(oncelog("groups", "offsets", "counters", "-o", "json"))["offsets"][0]
    assert (found["offset"], found["lag"]) == (1, 6)
    # It is counted up to the open transaction.
    assert found["behind"] == {"records": 2, "aborted": 1, "markers": 2, "is_whole": False}
    assert [one["transactional_id"] for one in found["unstable_by"]] == ["pay"]
    assert (found["readable"], found["held_back"]) == (5, 1)
    assert (found["held_by"]["transactional_id"], found["is_blocked"]) == ("pay", False)
    shown = " ".join(oncelog("groups", "offsets", "counters").split())
    assert "2+ 1 held by pay for" in shown
    assert "unstable: pay" in shown
    assert "6 offsets behind (commit markers count), 1 of them held back" in shown
    # Once it has read all that is committed, it is blocked.
    move = ("groups", "reset-offsets", "counters", "--topic", "counted", "--execute", "--to")
    oncelog(*move, "6")
    shown = " ".join(oncelog("groups", "offsets", "counters").split())
    # "held" for its first seconds.
    assert re.search("1 of them held back by open transactions; (held|blocked) by pay for", shown)
    assert re.search("(held|blocked) by pay for", " ".join(oncelog("groups", "list").split()))
    oncelog(*move, "1")
    producer.abort_transaction(20)
    found = json.loads(oncelog("groups", "offsets", "counters", "-o", "json"))["offsets"][0]
    assert found["behind"] == {"records": 2, "aborted": 2, "markers": 3, "is_whole": True}
    assert found["unstable_by"] == []


def test_a_reset_to_a_time_sees_an_open_transaction(oncelog, server):
    """Behind it the group would never read what is committed a moment later."""
    oncelog("topics", "create", "timed")
    oncelog("produce", "timed", stdin="a\n")
    producer = Producer(
        {"bootstrap.servers": server.bootstrap, "transactional.id": "timed", "log_level": 0}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    now_ms = int(time.time() * 1000)
    producer.produce("timed", "b", timestamp=now_ms + 120_000)
    producer.flush(20)
    when = ("--topic", "timed", "--to-datetime", str(now_ms + 60_000))
    found = json.loads(oncelog("groups", "reset-offsets", "timed", *when, "-o", "json"))
    producer.abort_transaction(20)
    assert [one["to"] for one in found["offsets"]] == [1]
