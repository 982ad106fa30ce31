"""A group that a transaction blocks, in a real browser: the words, and the way to the transaction that does."""

import re
from concurrent.futures import ThreadPoolExecutor

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.incidents.scenes import raw, raw_produce
from tests.pages.clients import WAIT_S, begin

axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="`make pages` installs axe"
)


@pytest.fixture(scope="module")
def blocked(server):
    """`billing` has read all that is committed of `waits` and of `stuck`."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    topics = [NewTopic(name, 1, 1) for name in ("waits", "stuck")]
    for created in admin.create_topics(topics).values():
        created.result(WAIT_S)
    begin(server, "done", topic="stuck").commit_transaction(WAIT_S)

    def write():
        return raw(server.bootstrap, lambda one: raw_produce(one, "stuck", "nobody", 999_998, 2))

    with ThreadPoolExecutor() as pool:
        assert pool.submit(write).result(WAIT_S) == 0
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": "billing", "log_level": 0}
    )
    # After the record of `done`, which is before its marker: the client commits so.
    offsets = [TopicPartition("waits", 0, 0), TopicPartition("stuck", 0, 1)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    return begin(server, "pay-7", topic="waits")


def row(page, name):
    return page.locator("tr", has=page.get_by_role("link", name=name, exact=True))


def test_a_blocked_group_leads_to_the_transaction_that_blocks(tab, server, blocked):
    page = tab("/groups")
    words = "blocked by a hanging transaction of producer 999998 for"
    assert words in row(page, "billing").inner_text()
    page.get_by_role("link", name="billing", exact=True).click()
    assert words in row(page, "stuck-0").inner_text()
    # "held" for its first seconds.
    assert re.search("(held|blocked) by pay-7 for", row(page, "waits-0").inner_text())
    page.get_by_role("link", name="pay-7", exact=True).click()
    page.wait_for_url("**/transaction?id=pay-7")
    page.go_back()
    page.get_by_role("link", name="producer 999998", exact=True).click()
    page.wait_for_url("**/partition?topic=stuck&partition=0")
    assert page.get_by_text("last sign of life").is_visible()
    assert page.get_by_text("oncelog transactions abort --topic stuck").count()


@pytest.mark.parametrize(
    "path", ["/groups", "/group?id=billing", "/partition?topic=stuck&partition=0"]
)
def test_its_pages_are_accessible_and_fit_a_phone(tab, blocked, path, scheme):
    page = tab(path, width=360, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
