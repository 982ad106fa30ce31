"""Six questions of an operator, each answered within three clicks from the overview. What is typed is a click."""

import re
from concurrent.futures import ThreadPoolExecutor

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.incidents.scenes import raw, raw_produce
from tests.pages.clients import WAIT_S, begin, wake
from tests.targets import open_target

from oncelog_server.cli.rest import Rest

CLICKS_MAX = 3
TOPICS = ("audits", "blocked", "nightly", "slowly", "stuck", "busy")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Alone: what other tests leave open would be on its overview."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ONCELOG_STORAGE_TRANSACTION_PARTITION_VERIFICATION_ENABLE", "false")
        with open_target(tmp_path_factory.mktemp("paths")) as running:
            admin = AdminClient({"bootstrap.servers": running.bootstrap})
            topics = [NewTopic(name, 1, 1) for name in TOPICS]
            for created in admin.create_topics(topics).values():
                created.result(WAIT_S)
            wake(running)
            yield running


class Operator:
    """Sits before the overview, and counts what it takes."""

    def __init__(self, page):
        self.page = page
        self.clicks = 0

    def click(self, name, **more):
        self._count()
        self.page.get_by_role("link", name=name, **more).first.click()

    def open(self, row):
        """A row that opens."""
        self._count()
        row.locator("summary").click()

    def ask(self, text):
        self._count()
        self.page.keyboard.press("/")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")

    def reads(self, text):
        self.page.get_by_text(text).first.wait_for()

    def _count(self):
        self.clicks += 1
        assert self.clicks <= CLICKS_MAX, "too far from the overview"


@pytest.fixture
def operator(tab, server):
    return Operator(tab("/"))


def commit_group(server, group, topic, offset):
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": group, "log_level": 0}
    )
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_a_records_fate(server, operator):
    begin(server, "audit-1", topic="audits").abort_transaction(WAIT_S)
    operator.ask("audits-0@0")
    operator.page.wait_for_url("**/record?topic=audits&partition=0&offset=0")
    operator.reads("aborted")


def test_a_records_fate_by_looking_at_its_topic(server, operator):
    begin(server, "audit-2", topic="audits").abort_transaction(WAIT_S)
    operator.click("topics")
    operator.click("Records of audits")
    row = operator.page.locator("table.records tr.row:not(.marker)").filter(has_text="audit-2")
    assert row.locator(".pill").first.inner_text() == "aborted"


def test_why_a_group_is_stuck(server, tab):
    begin(server, "done", topic="stuck").commit_transaction(WAIT_S)

    def write():
        return raw(server.bootstrap, lambda one: raw_produce(one, "stuck", "nobody", 999_998, 2))

    with ThreadPoolExecutor() as pool:
        assert pool.submit(write).result(WAIT_S) == 0
    # After the record of `done`, before its marker: the client commits so.
    commit_group(server, "dashboards", "stuck", 1)
    operator = Operator(tab("/"))
    operator.reads("to act on")
    row = operator.page.locator(".troubles tr").filter(has_text="stuck-0")
    assert "it blocks group dashboards" in row.inner_text()
    assert "oncelog transactions abort --topic stuck --partition 0" in row.inner_text()
    assert row.locator("time").count() == 1, "since when"
    operator.click("Group dashboards")
    operator.reads("blocked by a hanging transaction of producer 999998 for")
    assert operator.page.get_by_text("oncelog transactions abort --topic stuck").count()
    Rest(server.gateway).post(
        "/v1/transactions/abort",
        {"topic": "stuck", "partition": 0, "start_offset": 2, "dry_run": False},
    )


def test_which_transaction_was_slow_and_where(server, operator):
    producer = begin(server, "slow-writer", topic="slowly")
    # The others of this module take milliseconds.
    row = operator.page.locator("tr").filter(has_text="slow-writer")
    row.get_by_text(re.compile(r"^\d+ s$")).first.wait_for()
    producer.commit_transaction(WAIT_S)
    operator.click("Transactions", exact=True)
    operator.click("The slowest transactions")
    row = operator.page.locator("tbody tr").filter(has_text="slow-writer")
    took = row.locator("td").nth(1).inner_text()
    assert re.fullmatch(r"[\d.]+ s", took), took
    assert row.locator("td").nth(3).inner_text() == took, "until the decision"
    operator.click("slow-writer")
    bar = operator.page.locator("details.txn[open]")
    assert "from the first record to the decision" in bar.inner_text()


def test_who_writes_most(server, operator):
    producer = begin(server, "loud", topic="busy")
    for _ in range(50):
        producer.produce("busy", b"x" * 1_000, partition=0)
    producer.commit_transaction(WAIT_S)
    begin(server, "quiet", topic="busy").commit_transaction(WAIT_S)
    operator.click("topics")
    operator.click("busy", exact=True)
    table = operator.page.get_by_role("group", name="Who writes, scrollable")
    rows = [one.inner_text().split("\t") for one in table.locator("tbody tr").all()]
    assert [one[1] for one in rows] == ["loud", "quiet"]
    assert rows[0][2] == "99 %" or rows[0][2] == "100 %"
    assert int(rows[0][4]) == 51


def test_whether_last_nights_job_committed(server, operator):
    for number in range(3):
        producer = begin(server, f"night-{number}", topic="nightly")
        end = producer.abort_transaction if number == 1 else producer.commit_transaction
        end(WAIT_S)
    operator.ask("night-*")
    operator.page.wait_for_url("**/transactions?id_pattern=night-*")
    rows = [one.inner_text().split("\t") for one in operator.page.locator("tbody tr").all()]
    assert {one[0].strip(): one[1] for one in rows} == {
        "night-0": "CompleteCommit",
        "night-1": "CompleteAbort",
        "night-2": "CompleteCommit",
    }
    assert all(":" in one[3] for one in rows), "when"
    operator.click("night-1")
    operator.reads("aborted")


def test_whether_the_cluster_is_well(server, operator):
    operator.reads("All is well:")
    assert operator.page.locator(".troubles").count() == 0
    assert operator.page.get_by_text("every replica is in sync").is_visible()


def test_it_fits_a_phone_and_is_accessible_with_troubles(server, tab, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    producer = begin(server, "pay-7", topic="blocked")
    commit_group(server, "billing", "blocked", 0)
    # A group is told of when it is blocked for ten seconds.
    page = tab("/", width=360, scheme=scheme)
    page.get_by_text("blocks group billing").wait_for(timeout=30_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    producer.abort_transaction(WAIT_S)
