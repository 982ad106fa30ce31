"""Rates over time in a real Chromium: axes, legend, the value under pointer and keyboard, and the table that says the
same."""

import re

import pytest
from confluent_kafka import Consumer, Producer
from tests.pages.clients import WAIT_S

axe = pytest.importorskip("axe_playwright_python.sync_playwright")

TIME = re.compile(r"^\d\d:\d\d(:\d\d)?$")
PRODUCED = "#chart-produced_bytes"
RECORDED_MS = 70_000
"""Groups are read once a minute where reading them takes long."""


@pytest.fixture(scope="module")
def worked(server, browser):
    """A transaction and a consumer group, in readings that the gateway has taken."""
    context = browser.new_context(base_url=server.gateway)
    page = context.new_page()
    page.goto("/rates")
    page.locator("#chart-cpu").wait_for(timeout=WAIT_S * 1000)
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": "pay"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for _ in range(300):
        producer.produce("orders", b"x" * 100)
    producer.flush(WAIT_S)
    page.locator("#chart-lso_lag").wait_for(timeout=WAIT_S * 1000)
    producer.commit_transaction(WAIT_S)
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    assert consumer.consume(100, WAIT_S)
    consumer.commit(asynchronous=False)
    consumer.close()
    for chart in (
        PRODUCED,
        "#chart-consumed_bytes",
        "#chart-transactions",
        "#chart-group_readable",
    ):
        page.locator(chart).wait_for(timeout=RECORDED_MS)
    context.close()


def test_a_chart_has_round_marks_units_and_names(tab, worked):
    page = tab("/rates")
    chart = page.locator(PRODUCED)
    texts = chart.locator(".plot text").all_text_contents()
    assert "0" in texts
    assert any(one.endswith("/s") for one in texts)
    assert len([one for one in texts if TIME.match(one)]) >= 2
    assert chart.get_by_role("link", name="orders").get_attribute("href") == "/topic?name=orders"
    assert chart.locator("polyline.l0, circle.l0").count()
    assert page.locator(".chart").count() >= 10


def test_the_pointer_reads_the_table(tab, worked):
    page = tab("/rates")
    chart = page.locator(PRODUCED)
    picture = chart.locator(".plot > svg")
    box = picture.bounding_box()
    picture.hover(position={"x": box["width"] - 2, "y": 60})
    chart.get_by_text(re.compile(r"at \d\d:\d\d:\d\d")).wait_for()
    chart.get_by_text("The same as a table").click()
    newest = chart.locator("tbody tr").first.locator("td").all_inner_texts()
    picture.hover(position={"x": box["width"] - 2, "y": 61})
    assert chart.locator("[data-value]").all_inner_texts() == newest[1:]
    page.mouse.move(1, 1)
    chart.get_by_text("now", exact=True).wait_for()


def test_arrow_keys_move_through_time(tab, worked):
    page = tab("/rates")
    picture = page.locator(f"{PRODUCED} .plot > svg")
    picture.focus()
    page.keyboard.press("ArrowLeft")
    assert picture.get_attribute("role") == "slider"
    assert picture.get_attribute("aria-valuenow") == "88"
    assert re.match(r"\d\d:\d\d:\d\d: .*orders ", picture.get_attribute("aria-valuetext"))
    page.keyboard.press("Home")
    assert picture.get_attribute("aria-valuenow") == "0"


def test_a_page_that_comes_again_keeps_what_is_looked_at(tab, worked):
    page = tab("/rates")
    page.locator(f"{PRODUCED} summary").click()
    picture = page.locator(f"{PRODUCED} .plot > svg")
    picture.focus()
    page.keyboard.press("PageUp")
    looked = picture.get_attribute("aria-valuetext")
    page.evaluate("document.querySelector('#live .charts').id = 'before'")
    page.locator("#before").wait_for(state="detached", timeout=WAIT_S * 1000)
    assert page.locator(f"{PRODUCED} .plot > svg").get_attribute("aria-valuetext") == looked
    assert page.evaluate("document.activeElement.closest('.chart').id") == PRODUCED[1:]
    assert page.locator(f"{PRODUCED} details").get_attribute("open") is not None


def test_without_scripts_the_same_is_there_in_utc(tab, worked):
    page = tab("/rates", java_script_enabled=False)
    assert "UTC" in page.locator("#live > p").first.inner_text()
    assert page.locator(f"{PRODUCED} .plot > svg").get_attribute("role") == "img"
    page.locator(f"{PRODUCED} summary").click()
    assert page.locator(f"{PRODUCED} tbody tr").count() == 90


@pytest.mark.parametrize(("minutes", "rows"), [(60, 60), (360, 72), (1440, 96)])
def test_longer_times_are_links(tab, worked, minutes, rows):
    page = tab("/rates")
    page.locator(f'nav.switch a[href="/rates?minutes={minutes}"]').click()
    page.wait_for_url(f"**/rates?minutes={minutes}")
    assert page.locator("nav.switch [aria-current]").count() == 1
    assert page.locator(f"{PRODUCED} tbody tr").count() == rows


@pytest.mark.parametrize("width", [1280, 360])
def test_rates_fit_the_screen_and_are_accessible(tab, worked, width, scheme):
    page = tab("/rates", width=width, scheme=scheme)
    page.locator(f"{PRODUCED} summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize(
    ("path", "chart"),
    [
        ("/topic?name=orders", "topic_bytes"),
        ("/topic?name=orders", "topic_records"),
        ("/group?id=billing", "group_lag"),
        ("/nodes", "cpu"),
        ("/nodes", "memory"),
        ("/", "lso_lag"),
    ],
)
def test_other_pages_show_their_part(tab, worked, path, chart):
    page = tab(path, width=360)
    page.locator(f"#chart-{chart}").wait_for()
    assert page.get_by_role("link", name="all rates").get_attribute("href") == "/rates"
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
