"""`GET /v1/topics/{topic}/records` against a real log, written by real clients."""

import base64
import json
import urllib.error
from contextlib import contextmanager
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import oncelog

WAIT_S = 60


@pytest.fixture(scope="module")
def log():
    with oncelog.running() as running:
        yield running


def made(log, name, partitions=1, **config):
    admin = AdminClient({"bootstrap.servers": log.bootstrap_servers})
    (created,) = admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values()
    created.result(WAIT_S)
    return name


def writer(log, transactional_id=None, **more):
    settings = {"bootstrap.servers": log.bootstrap_servers, "linger.ms": 0, "log_level": 0, **more}
    if transactional_id is not None:
        settings["transactional.id"] = transactional_id
    producer = Producer(settings)
    if transactional_id is not None:
        producer.init_transactions(WAIT_S)
    return producer


@contextmanager
def transaction(producer, *, commit=True):
    producer.begin_transaction()
    yield
    assert producer.flush(WAIT_S) == 0
    if commit:
        producer.commit_transaction(WAIT_S)
    else:
        producer.abort_transaction(WAIT_S)


def asked(log, topic, **query):
    """Status and JSON."""
    text = urlencode({name.rstrip("_"): value for name, value in query.items()})
    try:
        with urlopen(f"{log.rest_url}/v1/topics/{topic}/records?{text}", timeout=WAIT_S) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def page(log, topic, **query):
    status, found = asked(log, topic, **query)
    assert status == 200, found
    return found


def every(log, topic, **query):
    """The records of all pages, and how many pages there were."""
    found, cursor, pages = [], {}, 0
    while True:
        one = page(log, topic, **query, **cursor)
        pages += 1
        assert len(one["records"]) <= query.get("limit", 100)
        found += one["records"]
        if one["next_cursor"] is None:
            return found, pages
        cursor = {"cursor": one["next_cursor"]}
        assert pages < 200


def seen(records):
    return [(one["offset"], one["value"], one["outcome"]) for one in records]


@pytest.fixture(scope="module")
def fates(log):
    """Plain 0; committed 1, 2 and its marker 3; aborted 4 and its marker 5; open 6; committed 7, marker 8; plain 9."""
    topic = made(log, "fates")
    plain = writer(log)
    plain.produce(topic, b"plain", b"k0", partition=0)
    plain.flush(WAIT_S)
    first = writer(log, "first")
    with transaction(first):
        first.produce(topic, b"c1", b"k1", partition=0)
        first.produce(topic, b"c2", b"k2", partition=0)
    with transaction(first, commit=False):
        first.produce(topic, b"a", b"k3", partition=0)
    held = writer(log, "held")
    held.begin_transaction()
    held.produce(topic, b"o", partition=0)
    held.flush(WAIT_S)
    with transaction(first):
        first.produce(topic, b"late", partition=0)
    plain.produce(topic, b"end", partition=0)
    plain.flush(WAIT_S)
    yield topic
    held.abort_transaction(WAIT_S)


FATES = [
    (0, "plain", "plain"),
    (1, "c1", "committed"),
    (2, "c2", "committed"),
    (3, None, "marker"),
    (4, "a", "aborted"),
    (5, None, "marker"),
    (6, "o", "open"),
    (7, "late", "committed"),
    (8, None, "marker"),
    (9, "end", "plain"),
]


def outcomes(records):
    return [(one["offset"], one["outcome"]) for one in records]


def test_each_record_says_what_became_of_it(log, fates):
    found = page(log, fates, from_="oldest")
    records = found["records"]
    assert outcomes(records) == [(offset, outcome) for offset, _, outcome in FATES]
    assert [one["value"] for one in records if one["outcome"] != "marker"] == [
        value for _, value, outcome in FATES if outcome != "marker"
    ]
    assert [one["marker"] for one in records if one["outcome"] == "marker"] == [
        "commit",
        "abort",
        "commit",
    ]
    assert [one["offset"] for one in records if one["read_committed"]] == [0, 1, 2]
    assert [one["transactional_id"] for one in records] == [
        None,
        *["first"] * 5,
        "held",
        *["first"] * 2,
        None,
    ]
    assert records[1]["producer_id"] >= 0
    assert records[1]["producer_epoch"] >= 0
    assert found["partitions"] == [
        {"partition": 0, "log_start_offset": 0, "last_stable_offset": 6, "high_watermark": 10}
    ]
    assert found["next_cursor"] is None


def test_read_committed_shows_what_such_a_consumer_gets(log, fates):
    for begin in ("oldest", "newest"):
        found = page(log, fates, from_=begin, isolation="read_committed")
        assert sorted(one["offset"] for one in found["records"]) == [0, 1, 2]
        assert all(one["read_committed"] for one in found["records"])
        assert found["unshown"] == {"aborted": 1, "markers": 2, "held_back": 4, "filtered": 0}


def test_markers_are_left_out_where_nobody_wants_them(log, fates):
    for begin in ("oldest", "newest"):
        found = page(log, fates, from_=begin, markers="false")
        assert sorted(one["offset"] for one in found["records"]) == [0, 1, 2, 4, 6, 7, 9]
        assert found["unshown"]["markers"] == 3


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_back_and_on_show_each_record_once(log, fates, limit):
    on, _ = every(log, fates, from_="oldest", limit=limit)
    back, _ = every(log, fates, from_="newest", limit=limit)
    assert outcomes(on) == [(offset, outcome) for offset, _, outcome in FATES]
    assert on == back[::-1]


def test_it_begins_at_an_offset_or_a_time(log, fates):
    records = page(log, fates, from_=7, partition=0)["records"]
    assert outcomes(records) == [(7, "committed"), (8, "marker"), (9, "plain")]
    first_ms = page(log, fates, from_="oldest")["records"][0]["timestamp_ms"]
    assert len(page(log, fates, from_=f"@{first_ms}")["records"]) == len(FATES)
    assert page(log, fates, from_="@2999-01-01")["records"] == []


def test_records_are_found_by_key_header_and_text(log):
    topic = made(log, "filtered")
    producer = writer(log)
    for number in range(30):
        producer.produce(
            topic,
            f"value {number}",
            f"key {number}",
            partition=0,
            headers=[("parity", str(number % 2)), (f"h{number}", None)],
        )
    producer.flush(WAIT_S)

    def found(**query):
        records, _ = every(log, topic, from_="oldest", limit=4, **query)
        return [one["offset"] for one in records]

    assert found(key="key 7") == [7]
    assert found(header="h3") == [3]
    assert found(header="parity=1") == list(range(1, 30, 2))
    assert found(text="value 2") == [2, *range(20, 30)]
    assert found(text="value 2", header="parity=0") == [2, *range(20, 30, 2)]
    assert found(text="VALUE") == []
    newest = page(log, topic, header="parity=1", limit=3)
    assert [one["offset"] for one in newest["records"]] == [29, 27, 25]
    assert newest["unshown"]["filtered"] > 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read(log, codec):
    topic = made(log, f"packed-{codec}")
    producer = writer(log, f"packer-{codec}", **{"compression.type": codec, "linger.ms": 50})
    with transaction(producer):
        for number in range(50):
            producer.produce(topic, f"{number} " + "x" * 200, partition=0)
    records = page(log, topic, from_="oldest")["records"]
    assert [one["value"].split()[0] for one in records[:-1]] == [str(one) for one in range(50)]
    assert records[0]["outcome"] == "committed"
    assert outcomes(page(log, topic, from_=20, limit=1)["records"]) == [(20, "committed")]


def test_what_is_no_text_is_base64_and_says_so(log):
    topic = made(log, "odd")
    producer = writer(log)
    producer.produce(
        topic, b"\xff\x00", b"\xfe", partition=0, headers=[("h", b"\xff"), ("n", None), ("t", "ü")]
    )
    producer.produce(topic, None, b"", partition=0)
    producer.flush(WAIT_S)
    odd, empty = page(log, topic, from_="oldest")["records"]
    assert (odd["key"], odd["key_base64"], odd["key_bytes"]) == (None, "/g==", 1)
    assert (odd["value"], odd["value_base64"], odd["value_bytes"]) == (None, "/wA=", 2)
    assert [
        (one["name"], one["value"], one["value_base64"], one["value_bytes"])
        for one in odd["headers"]
    ] == [
        ("h", None, "/w==", 1),
        ("n", None, None, None),
        ("t", "ü", None, 2),
    ]
    assert (odd["size_bytes"], empty["size_bytes"]) == (6, 0)
    assert (empty["key"], empty["key_bytes"]) == ("", 0)
    assert (empty["value"], empty["value_base64"], empty["value_bytes"]) == (None, None, None)


def test_what_is_cut_is_said(log):
    topic = made(log, "long")
    producer = writer(log)
    producer.produce(topic, "ü" * 50, "k", partition=0, headers=[("h", b"\xff" * 9)])
    producer.flush(WAIT_S)
    (record,) = page(log, topic, content_bytes=5)["records"]
    assert (record["value"], record["value_bytes"]) == ("üü", 100)
    assert record["cut"] == ["value", "headers"]
    assert record["headers"][0]["value_base64"] == base64.b64encode(b"\xff" * 5).decode()


def test_all_partitions_are_read_in_turns(log):
    topic = made(log, "many", 5)
    producer = writer(log)
    for number in range(40):
        producer.produce(topic, str(number), partition=number % 4)
    producer.flush(WAIT_S)
    for begin in ("oldest", "newest"):
        records, pages = every(log, topic, from_=begin, limit=3)
        assert sorted(int(one["value"]) for one in records) == list(range(40))
        assert pages >= 40 / 3
    assert page(log, topic, partition=4)["records"] == []
    only = page(log, topic, partition=2, from_="oldest")["records"]
    assert [one["value"] for one in only] == [str(number) for number in range(2, 40, 4)]


def test_a_page_reads_few_bytes_and_goes_on(log):
    topic = made(log, "large")
    producer = writer(log, **{"batch.num.messages": 1})
    for number in range(30):
        producer.produce(topic, f"{number} ".encode() + bytes(10_000), partition=0)
    producer.flush(WAIT_S)
    for begin in ("oldest", "newest"):
        one = page(log, topic, from_=begin, max_bytes=50_000)
        assert 1 <= len(one["records"]) < 10
        assert one["bytes_read"] <= 2 * 50_000 + 12_000
        records, _ = every(log, topic, from_=begin, max_bytes=50_000)
        assert sorted(record["offset"] for record in records) == list(range(30))


def test_internal_records_are_decoded(log, fates):
    records, _ = every(log, "__transaction_state", from_="oldest", limit=500)
    states = [
        one["decoded"]["state"]
        for one in records
        if one["decoded"] and one["decoded"].get("transactional_id") == "first"
    ]
    assert states[0] == "Empty"
    assert "Ongoing" in states
    assert "CompleteAbort" in states


def test_what_retention_took_is_said(log):
    topic = made(log, "shortened")
    producer = writer(log, **{"batch.num.messages": 1})
    for number in range(10):
        producer.produce(topic, str(number), partition=0)
    producer.flush(WAIT_S)
    first = page(log, topic, from_="oldest", limit=2)
    admin = AdminClient({"bootstrap.servers": log.bootstrap_servers})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 6)]).values()
    deleted.result(WAIT_S)
    rest = page(log, topic, cursor=first["next_cursor"])
    assert [one["offset"] for one in rest["records"]] == [6, 7, 8, 9]
    assert [one["offset"] for one in page(log, topic, from_="oldest", limit=1)["records"]] == [6]
    assert every(log, topic, limit=3)[0][-1]["offset"] == 6
    status, problem = asked(log, topic, from_=2, partition=0)
    assert (status, "its log begins at 6" in problem["detail"]) == (422, True)


def test_a_batch_above_the_bytes_of_a_page_is_shown(log):
    topic = made(log, "huge")
    producer = writer(log)
    for _ in range(3):
        producer.produce(topic, bytes(600_000), partition=0)
        producer.flush(WAIT_S)
    for begin in ("oldest", "newest"):
        one = page(log, topic, from_=begin, max_bytes=1_000)
        assert len(one["records"]) == 1
        assert one["records"][0]["cut"] == ["value"]
        records, _ = every(log, topic, from_=begin, max_bytes=1_000)
        assert sorted(record["offset"] for record in records) == [0, 1, 2]


REFUSED = [
    ("fates", {"from_": "99", "partition": 0}, 422, "no offset 99 in fates-0: its log begins at 0"),
    ("fates", {"from_": "yesterday"}, 422, "'yesterday' is neither newest, oldest"),
    ("fates", {"from_": "@noon"}, 422, "'noon' is no time"),
    ("fates", {"from_": "@1960-01-01"}, 422, "is before 1970"),
    ("fates", {"from_": "-1"}, 422, "'-1' is neither"),
    ("fates", {"limit": 0}, 422, "query.limit"),
    ("fates", {"limit": 501}, 422, "query.limit"),
    ("fates", {"max_bytes": 0}, 422, "query.max_bytes"),
    ("fates", {"isolation": "dirty"}, 422, "query.isolation"),
    ("fates", {"partition": 7}, 404, "there is no partition 7 of a topic 'fates'"),
    ("fates", {"partition": -1}, 422, "query.partition"),
    ("fates", {"cursor": "nonsense"}, 404, "'nonsense' is not a cursor"),
    ("fates", {"offset": 1}, 422, "query.offset: unknown parameter"),
    ("nowhere", {}, 404, "there is no topic 'nowhere'; GET /v1/topics lists all"),
]


@pytest.mark.parametrize(("topic", "query", "status", "words"), REFUSED)
def test_what_cannot_be_names_the_value(log, fates, topic, query, status, words):
    found, problem = asked(log, topic, **query)
    assert (found, words in problem["detail"]) == (status, True), problem
