"""The console in a real Chromium: every page, the keyboard, live updates, the way to end a transaction, accessibility.

`make pages` runs it. Without Chromium or Playwright it is skipped, with the reason.
"""

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.incidents.scenes import consumer
from tests.pages.clients import WAIT_S, begin, leave_hanging

from oncelog_server.cli.rest import Rest

axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="`make pages` installs axe"
)

PATHS = [
    "/",
    "/transactions",
    "/slowest",
    "/transaction?id=slow%2Fone",
    "/partitions",
    "/partition?topic=orders&partition=0",
    "/topics",
    "/topic?name=orders",
    "/records?topic=orders",
    "/record?topic=orders&partition=0&offset=0",
    "/producers",
    "/nodes",
    "/groups",
    "/sinks",
    "/explain?subject=orders-0",
    "/audit",
    "/docs",
]


@pytest.fixture(scope="module")
def opened(server):
    return begin(server)


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_accessible_and_fits_a_phone(tab, opened, path, scheme):
    page = tab(path, width=390, scheme=scheme)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390, f"{path} is {width} pixels wide"
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_on_a_phone_the_pages_are_one_line_and_this_one_is_in_it(tab):
    page = tab("/audit", width=360)
    assert page.locator("header").bounding_box()["height"] < 150
    here = page.locator("header nav [aria-current]").bounding_box()
    assert here["x"] >= 0
    assert here["x"] + here["width"] <= 360


def test_a_page_comes_within_300_ms(tab, opened):
    page = tab("/")
    for path in PATHS[:-1]:
        taken = []
        for _ in range(3):
            page.goto(path)
            taken.append(page.evaluate("performance.getEntriesByType('navigation')[0].responseEnd"))
        assert min(taken) <= 300, (path, taken)


def test_the_keyboard_reaches_the_question_and_its_answer(tab, opened):
    page = tab("/")
    page.keyboard.press("/")
    page.keyboard.type("orders-0")
    page.keyboard.press("Enter")
    # By whom: other tests of the same server may have begun before.
    page.get_by_text("orders-0 is held back from offset").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"


def test_a_transaction_appears_and_goes_on_without_a_reload(tab, server, opened):
    page = tab("/transactions")
    page.evaluate("window.sameDocument = true")
    producer = begin(server, "appears")
    row = page.get_by_role("row").filter(has_text="appears")
    row.get_by_text("Ongoing").wait_for()
    producer.commit_transaction(WAIT_S)
    row.get_by_text("CompleteCommit").wait_for()
    assert page.evaluate("window.sameDocument")


def test_ending_a_transaction_shows_first_what_it_would_do(tab, server):
    begin(server, "ended")
    page = tab("/transaction?id=ended")
    act = page.get_by_role("button", name="Fence the producer and abort")
    assert act.is_hidden()
    page.get_by_role("button", name="What would ending it do?").click()
    act.wait_for()
    assert "would be fenced, 1 partition would get an" in page.locator("output").inner_text()
    act.click()
    page.get_by_text("ended by an operator").wait_for()
    page.get_by_text("CompleteAbort", exact=True).first.wait_for()
    page.goto("/audit")
    page.get_by_text("terminate").first.wait_for()


def test_a_hanging_transaction_is_aborted_in_two_steps(tab, server):
    leave_hanging(server, "stuck")
    page = tab("/")
    page.get_by_role("link", name="stuck-0", exact=True).first.click()
    act = page.get_by_role("button", name="Write the abort marker")
    assert act.is_hidden()
    page.get_by_label("reason").fill("ticket 7")
    page.get_by_role("button", name="What would ending it do?").click()
    act.wait_for()
    assert "would be written to stuck-0" in page.locator("output").inner_text()
    assert Rest(server.gateway).get("/v1/hanging-transactions", {})["total"] == 1
    act.click()
    act.wait_for(state="detached")
    assert Rest(server.gateway).get("/v1/hanging-transactions", {})["total"] == 0
    page.goto("/audit")
    page.get_by_text("ticket 7").first.wait_for()


def test_the_lanes_show_every_event_and_keep_their_names(tab, opened):
    page = tab("/transaction?id=slow%2Fone")
    marks = page.locator(".lanes circle").count()
    assert marks >= 3
    assert page.locator("table.timeline tbody tr").count() >= marks
    assert "coordinator" in page.locator("svg.names").inner_html()


def test_each_transaction_is_a_bar_that_opens_into_its_steps(tab, server):
    producer = begin(server, "bars")
    producer.commit_transaction(WAIT_S)
    producer.begin_transaction()
    producer.produce("orders", b"x")
    producer.flush(WAIT_S)
    page = tab("/transaction?id=bars")
    rows = page.locator("details.txn")
    assert [one.inner_text() for one in rows.locator(".pill").all()] == ["open", "committed"]
    committed = rows.nth(1)
    assert committed.locator("rect").count() == 3
    assert "marker in orders-0 after" in committed.locator("line title").inner_html()
    assert committed.get_by_text("the transaction is committed").is_hidden()
    committed.locator("summary").focus()
    page.keyboard.press("Enter")
    committed.get_by_text("the transaction is committed").wait_for()
    producer.abort_transaction(WAIT_S)
    page.get_by_text("aborted", exact=True).wait_for()
    assert committed.get_by_text("the transaction is committed").is_visible(), "it stays open"
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    assert page.locator(".strip circle").count() == 2
    page.reload()
    page.locator(".strip circle").nth(0).click()
    committed.get_by_text("the transaction is committed").wait_for()


@pytest.mark.parametrize(
    "path", ["/audit", "/nodes", "/group?id=reads", "/transaction?id=very-narrow", "/producers"]
)
def test_a_table_that_does_not_fit_is_scrolled_with_the_keyboard(tab, server, opened, path):
    begin(server, "very-narrow").abort_transaction(WAIT_S)
    Rest(server.gateway).post("/v1/transactions/very-narrow/terminate", {"dry_run": True})
    reader = consumer(server.bootstrap, "reads", "orders")
    reader.poll(1)
    reader.close()
    found = axe.Axe().run(tab(path, width=200))
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("path", ["/partitions", "/topics", "/transactions"])
def test_an_update_keeps_the_place_in_a_wide_table(tab, server, opened, path):
    page = tab(path, width=360)
    card = page.locator(".card:has(table)").first
    assert card.evaluate("one => (one.scrollLeft = 120, one.scrollLeft)") == 120
    card.evaluate("one => one.dataset.before = ''")
    begin(server, "comes-in-between").abort_transaction(WAIT_S)
    page.locator("[data-before]").wait_for(state="detached", timeout=WAIT_S * 1000)
    assert card.evaluate("one => one.scrollLeft") == 120


def test_an_update_keeps_place_and_focus_of_a_box_in_a_chart(tab, opened):
    page = tab("/rates", width=360)
    page.locator("#chart-memory summary").click()
    box = page.locator("#table-memory .chart-table")
    box.focus()
    assert box.evaluate("one => (one.scrollTop = 90, one.dataset.before = '', one.scrollTop)") == 90
    page.locator("[data-before]").wait_for(state="detached", timeout=WAIT_S * 1000)
    assert box.evaluate("one => one.scrollTop") == 90
    assert page.evaluate("document.activeElement.className") == "scrolled chart-table"


def test_a_long_name_takes_two_lines_and_is_whole_in_its_title(tab, server):
    name = "long-" * 40
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    (created,) = admin.create_topics([NewTopic(name, 1, 1)]).values()
    created.result(WAIT_S)
    producer = begin(server, name, topic=name)
    producer.commit_transaction(WAIT_S)
    for path, width in (("/topics", 1280), ("/slowest", 360), ("/transactions", 360)):
        page = tab(path, width=width)
        cell = page.locator(f'[title="{name}"]').first
        assert cell.bounding_box()["height"] < 50, path
