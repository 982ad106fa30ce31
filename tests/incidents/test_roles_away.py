"""Explanations and pages while a part of the cluster is frozen or dead: right, or open about what is not known, and
soon."""

from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from tests.incidents.scenes import (
    ANSWER_MAX_S,
    WAIT_S,
    consumer,
    eventually,
    explained,
    new_topic,
    producer,
    soon,
    text_of,
    write,
)
from tests.integration.failover.victims import coordinator_of, leader_of

from oncelog.errors import OncelogError
from oncelog_server.cli.rest import Rest
from oncelog_server.cluster.plan import REDIS

pytestmark = pytest.mark.usefixtures("whole")
ROUND_TRIP_S = 0.3
PAGES = [
    "/",
    "/transaction?id=away",
    "/partition?topic=away&partition=0",
    "/producers",
    "/group?id=g-away",
    "/nodes",
]
"""The first are asked while a frozen node is not fenced yet."""


@pytest.fixture(scope="module")
def opened(cluster):
    new_topic(cluster.bootstrap, "away", 1, 3)
    running = producer(cluster.bootstrap, "away", "app-1", timeout_ms=600_000)
    write(running, "away")
    running.commit_transaction(WAIT_S)
    reader = consumer(cluster.bootstrap, "g-away", "away")
    seen = eventually(lambda: [one for one in reader.consume(1, 1) if not one.error()])
    reader.commit(message=seen[0], asynchronous=False)
    reader.close()
    write(running, "away")
    return running


@contextmanager
def frozen(cluster, name):
    cluster.pause(name)
    try:
        yield
    finally:
        cluster.resume(name)


def every_page(gateway):
    """Each comes soon, and as a page."""
    for path in PAGES:
        text = soon(lambda path=path: page(gateway + path), ANSWER_MAX_S + ROUND_TRIP_S)
        assert '<main id="live"' in text


def page(url):
    try:
        with urlopen(url, timeout=WAIT_S) as answer:
            return answer.read().decode()
    except HTTPError as error:
        raise AssertionError(f"{url}: {error.code} {error.read()[:500]!r}") from None


def test_a_storage_node_is_frozen(cluster, opened):
    with frozen(cluster, leader_of(cluster, "away")):
        found = explained(cluster.gateway, "away-0")
        assert found["incident"] == "unknown"
        assert "did not answer" in text_of(found)
        found = explained(cluster.gateway, "away")
        assert found["incident"] in ("open", "open-and-slow")
        assert any("away-0" in one for one in found["unknown"]), found
        found = explained(cluster.gateway, "g-away")
        assert (found["incident"], "is not known" in found["verdict"]) == ("unknown", True)
        every_page(cluster.gateway)
    eventually(lambda: explained(cluster.gateway, "away-0")["incident"] == "open-and-slow")


def test_a_coordinator_is_frozen(cluster, opened):
    with frozen(cluster, coordinator_of(cluster, "away")):
        found = explained(cluster.gateway, "away")
        assert "did not answer" in text_of(found), found
        found = explained(cluster.gateway, "away-0")
        assert found["incident"] == "unknown"
        assert "whether it hangs is not known" in found["verdict"]
        every_page(cluster.gateway)
    eventually(lambda: explained(cluster.gateway, "away")["incident"] == "open-and-slow")


def test_redis_is_dead(cluster, opened):
    cluster.kill(REDIS)
    try:
        found = eventually(lambda: (one := explained(cluster.gateway, "away"))["unknown"] and one)
        assert found["incident"] in ("open", "open-and-slow"), "what roles say is told all the same"
        every_page(cluster.gateway)
    finally:
        cluster.start_one(REDIS)
    left: list[str] = []

    def is_read_again():
        """What Redis had not handed on when it died is lost, and the history says so."""
        left[:] = explained(cluster.gateway, "away")["unknown"]
        return all(one.endswith("events are missing in the history") for one in left)

    eventually(is_read_again, left)


NOTHING = "is no transactional.id, producer id, topic-partition, group or sink that is known"


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("nobody", NOTHING),
        ("away-1", "Topic 'away' has 1 partition, from away-0 on"),
        ("away-99999999999999999999", NOTHING),
        ("a/b/c", NOTHING),
        ("żółw-🐢", NOTHING),
        ("x" * 200, NOTHING),
        ("-1", NOTHING),
        ("99999999999999999999", NOTHING),
        (" ", NOTHING),
        ("\x00", NOTHING),
    ],
    ids=range(10),
)
def test_a_name_of_nobody_is_refused_with_what_could_be_meant(cluster, opened, subject, words):
    def refused():
        with pytest.raises(OncelogError) as error:
            Rest(cluster.gateway).get("/v1/explain", {"subject": subject})
        return str(error.value)

    said = soon(refused)
    assert repr(subject) in said
    assert words in said
    assert "[RESOURCE_NOT_FOUND]" in said


def test_a_producer_id_of_nobody_is_told_so(cluster, opened):
    found = explained(cluster.gateway, "424242")
    assert (found["kind"], found["incident"]) == ("producer", "unknown-id")


def test_a_topic_is_answered_with_its_partitions(cluster):
    new_topic(cluster.bootstrap, "a.topic", 2, 3)
    with pytest.raises(
        OncelogError, match=r"It is a topic with 2 partitions: ask about one, a\.topic-0"
    ):
        Rest(cluster.gateway).get("/v1/explain", {"subject": "a.topic"})


def test_a_name_that_is_two_things_is_explained_with_a_kind(cluster, opened):
    reader = consumer(cluster.bootstrap, "away", "away")
    eventually(lambda: [one for one in reader.consume(1, 1) if not one.error()])
    reader.close()
    with pytest.raises(OncelogError, match="is a transaction and a group; choose one with kind"):
        Rest(cluster.gateway).get("/v1/explain", {"subject": "away"})
    for kind in ("transaction", "group"):
        assert explained(cluster.gateway, "away", kind=kind)["kind"] == kind
