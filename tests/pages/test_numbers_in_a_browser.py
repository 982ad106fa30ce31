"""Long numbers in a real Chromium: grouped everywhere, never broken in two lines, and copied as digits alone."""

import pytest
from confluent_kafka import Consumer, Producer
from tests.pages.clients import WAIT_S, begin

axe = pytest.importorskip("axe_playwright_python.sync_playwright")

RECORDS = 12_345
GROUP = "billing"
HELD = "held/one"
PATHS = [
    "/partition?topic=orders&partition=0",
    "/partitions",
    "/topic?name=orders",
    "/records?topic=orders",
    f"/record?topic=orders&partition=0&offset={RECORDS - 1}",
    f"/group?id={GROUP}",
    "/groups",
    f"/transaction?id={HELD}",
    "/producers",
]
BROKEN = """() => [...document.querySelectorAll(".num")].filter((one) =>
    new Set([...one.getClientRects()].map((box) => Math.round(box.top))).size > 1
  ).map((one) => one.textContent)"""
UNGROUPED = """() => [...document.querySelectorAll("#live td.n, #live .tile b, #live dd, #live .verdict, #live li")]
  .filter((one) => {
    const rest = one.cloneNode(true);
    for (const part of rest.querySelectorAll(".num, code, pre, a, time, svg")) part.remove();
    return /(^|\\s)\\d{5,}(\\s|$)/.test(rest.textContent);
  }).map((one) => one.textContent)"""
SELECTED = """(one) => {
  getSelection().selectAllChildren(one);
  return getSelection().toString();
}"""


@pytest.fixture(scope="module")
def written(server):
    """So many records, a group that read one of them, and then a transaction that holds the partition."""
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 20})
    for number in range(RECORDS):
        producer.produce("orders", b"%d" % number, partition=0)
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    assert consumer.consume(1, WAIT_S)
    consumer.commit(asynchronous=False)
    consumer.close()
    return begin(server, HELD)


@pytest.mark.parametrize("path", PATHS)
def test_numbers_are_grouped_and_whole_on_a_phone(tab, written, path):
    page = tab(path, width=360)
    page.locator(".num").first.wait_for()
    assert page.evaluate(BROKEN) == []
    assert page.evaluate(UNGROUPED) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_an_offset_is_copied_as_its_digits(tab, written):
    page = tab(PATHS[0])
    offset = page.get_by_text("last stable offset", exact=True).locator("xpath=../dd")
    assert offset.evaluate(SELECTED) == str(RECORDS)
    first, second = offset.locator(".num span").bounding_box(), offset.bounding_box()
    assert first["x"] > second["x"], "the second group stands beside the first"


def test_a_gap_is_seen_between_two_groups(tab, written):
    page = tab(PATHS[0])
    gap = page.locator(".num span").first.evaluate("(one) => getComputedStyle(one).marginLeft")
    assert float(gap.removesuffix("px")) >= 2


def test_what_is_held_back_is_said_once_with_its_reason(tab, written):
    """The page of the transaction and that of the partition say the same words."""
    for path in (f"/transaction?id={HELD}", PATHS[0]):
        page = tab(path)
        words = page.locator("#live").inner_text()
        assert words.count("holds back 1 offset in orders-0") == 1, words
        assert "records held back" not in words
        assert "TV1" not in words
