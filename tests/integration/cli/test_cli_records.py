"""`oncelog produce` and `oncelog consume` against a running `oncelog up`: what is written, and how it looks."""

import json
import re
import signal
import subprocess

from tests.integration.cli.commands import ONCELOG
from tests.integration.cli.test_cli_commands import oncelog, records, server, topic

__all__ = ["oncelog", "server", "topic"]


def values(oncelog, topic):
    return [one["value"] for one in records(oncelog, topic, "--partition", "0")]


def test_lines_of_stdin_before_a_bad_one_are_told_as_written(oncelog, topic):
    arguments = ["produce", topic, "--key-separator", "=", "--partition", "0"]
    said = oncelog(*arguments, stdin="a=1\nb=2\nbad\nc=3\n", code=1)
    assert "line 3 has no key separator '=': 'bad'" in said
    assert "written: line 1 to 2" in said
    assert "the same input again would write lines twice; go on from line 3" in said
    assert "--transactional-id" in said
    assert values(oncelog, topic) == ["1", "2"]


def test_ctrl_c_tells_which_lines_were_written(oncelog, topic):
    command = [*ONCELOG, "produce", topic, "--partition", "0"]
    with (
        subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless,
        subprocess.Popen(
            command,
            stdin=endless.stdout,
            stderr=subprocess.PIPE,
            text=True,
            env=oncelog.environment,
        ) as process,
    ):
        try:
            while not oncelog("consume", topic, "-n", "1"):
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            said = process.stderr.read()
        finally:
            process.kill()
            endless.kill()
    (last,) = re.findall(r"stopped; written: line 1 to (\d+); the same input again", said)
    assert f"go on from line {int(last) + 1}" in said
    (end,) = json.loads(
        oncelog("consume", topic, "--offset", str(int(last) - 1), "-o", "json", "--partition", "0")
        .strip()
        .join("[]")
    )
    assert end["offset"] == int(last) - 1


def test_a_file_is_looked_at_before_anything_is_written(oncelog, topic, tmp_path):
    file = tmp_path / "lines"
    file.write_text("a=1\nb=2\nbad\n")
    arguments = ["produce", topic, "--key-separator", "=", "--partition", "0", "--file", str(file)]
    assert "line 3 has no key separator" in (said := oncelog(*arguments, code=1))
    assert "nothing was written" in said
    said = oncelog(*arguments, "--transactional-id", "looked-at", code=1)
    assert "nothing was written" in said
    assert values(oncelog, topic) == []


def test_what_the_log_refuses_is_told_by_its_line(oncelog, topic):
    oncelog("topics", "configs", topic, "--set", "max.message.bytes=1000")
    said = oncelog("produce", topic, "--partition", "0", stdin="x" * 5000, code=1)
    assert "line 1 was refused" in said
    assert "MESSAGE_TOO_LARGE" in said
    assert "nothing was written" in said
    assert values(oncelog, topic) == []


def test_null_empty_and_tombstones_make_the_round_trip(oncelog, topic):
    lines = "k1\tv\nk1\tNULL\nNULL\tx\n\t\n"
    arguments = ["--key-separator", r"\t", "--null-marker", "NULL", "--partition", "0"]
    oncelog("produce", topic, *arguments, "--compression", "zstd", stdin=lines)
    found = records(oncelog, topic)
    assert [(one["key"], one["value"]) for one in found] == [
        ("k1", "v"),
        ("k1", None),
        (None, "x"),
        ("", ""),
    ]
    as_written = ["--format", r"%k\t%s\n", "--null-marker", "NULL"]
    assert oncelog("consume", topic, *as_written) == lines
    assert oncelog("consume", topic).splitlines()[2] == f"{topic}-0@2\t<null>\tx"


def test_acks_may_be_fewer_but_not_in_a_transaction(oncelog, topic):
    for acks in ("1", "0"):
        assert "1 record written" in oncelog("produce", topic, "--acks", acks, stdin="v\n")
    said = oncelog("produce", topic, "--acks", "1", "--transactional-id", "t", stdin="v", code=2)
    assert "needs --acks all" in " ".join(said.split())


def test_reading_begins_at_a_time_and_a_group_goes_there(oncelog, topic):
    oncelog("produce", topic, "--partition", "0", stdin="a\nb\n")
    oncelog("produce", topic, "--partition", "0", stdin="c\n")
    last = records(oncelog, topic)[-1]
    begin = f"@{last['timestamp_ms']}"
    assert "c" in oncelog("consume", topic, "--offset", begin, "--values-only").split()
    assert oncelog("consume", topic, "--offset", "@2100-01-01T00:00:00Z") == ""
    assert "is no time" in oncelog("consume", topic, "--offset", "@soon", code=2)
    reset = ["groups", "reset-offsets", "at-a-time", "--topic", topic]
    assert "either --to or --to-datetime" in oncelog(*reset, code=2)
    output = json.loads(
        oncelog(*reset, "--to-datetime", "1970-01-01", "--execute", "--output", "json")
    )
    assert [one["to"] for one in output["offsets"]] == [0, 0]
    (group,) = [
        one
        for one in json.loads(oncelog("groups", "list", "--output", "json"))
        if one["group_id"] == "at-a-time"
    ]
    assert group["total_lag"] == 3
    line = next(one for one in oncelog("groups", "list").splitlines() if "at-a-time" in one)
    assert line.split()[-1] == "3"
    output = json.loads(oncelog(*reset, "--to-datetime", "2100-01-01", "--output", "json"))
    assert [one["to"] for one in output["offsets"]] == [3, 0]


def test_an_offset_that_is_not_there_is_told_with_those_that_are(oncelog, topic):
    oncelog("produce", topic, "--partition", "0", stdin="a\nb\n")
    said = oncelog("consume", topic, "--partition", "0", "--offset", "9", code=1)
    assert f"there is no offset 9 in {topic}-0: its log begins at 0 and ends before 2" in said


def test_a_topic_named_like_a_command_can_be_reached(oncelog):
    for name in ("show", "reassign"):
        oncelog("topics", "create", name)
        shown = oncelog("partitions", "show", name)
        assert f"{name}-0" in shown
        assert f"{name}-0" in oncelog("partitions", "--", name)


def test_health_says_what_it_looked_at_and_what_is_wrong(oncelog):
    assert json.loads(oncelog("health", "-o", "json"))["healthy"]
    shown = oncelog("health")
    for what in ("kafka clients", "every shard has a", "every replica is in sync", "none hangs"):
        assert what in shown
    oncelog("health", "--gateway", "http://127.0.0.1:1", code=1)
    oncelog("health", "--bootstrap", "127.0.0.1:1", code=1)
