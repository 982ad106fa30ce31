"""The console against what people and machines do to it: odd names, no scripts, a gateway that goes away, a transaction
that ends under somebody's hand."""

from urllib.parse import quote

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.pages.clients import WAIT_S, begin

from oncelog_server.cli.rest import Rest

SCRIPT = "<script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
LONG_TOPIC = "a-topic-of-249-characters-" + "x" * 223
NAMES = [
    SCRIPT,
    "x" * 300,
    "'\"; --#&?=%2F/..",
    "blanks  within",
    "żółw-🐢-عقد-\u202eright to left",
    "-starts-with-a-dash",
    "two\nlines\tand a tab",
]
TABS_OF_ONE_BROWSER = 8
"""A browser opens six connections to one host."""


@pytest.fixture(scope="module")
def odd(server):
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    (created,) = admin.create_topics([NewTopic(LONG_TOPIC, 1, 1)]).values()
    created.result(WAIT_S)
    return [begin(server, name, client_id=SCRIPT, topic=LONG_TOPIC) for name in NAMES]


def is_narrow(page):
    return page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize("path", ["/transaction?id=", "/explain?kind=transaction&subject="])
def test_an_odd_name_is_shown_as_it_is_and_fits_a_phone(tab, odd, name, path):
    page = tab(path + quote(name, safe=""), width=390)
    shown = page.locator("h1 .mono").evaluate("one => one.textContent")
    assert shown == name
    page.locator(".verdict .pill", has_text="open").wait_for()
    assert is_narrow(page)
    clipped = "(one) => one.scrollWidth > one.clientWidth + 1"
    assert not page.locator("section.card").evaluate(clipped), (
        "a part of the verdict is out of sight"
    )
    assert page.title() != "pwned"
    assert page.locator("main img").count() == 0


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/transactions",
        "/producers",
        "/partitions",
        f"/partition?topic={LONG_TOPIC}&partition=0",
        "/topics",
        f"/topic?name={LONG_TOPIC}",
        f"/records?topic={LONG_TOPIC}",
        f"/record?topic={LONG_TOPIC}&partition=0&offset=0",
    ],
)
def test_lists_of_odd_names_fit_a_phone(tab, odd, path):
    page = tab(path, width=390)
    assert is_narrow(page)
    assert page.title() != "pwned"


def test_a_link_to_an_odd_name_leads_to_it(tab, odd):
    for name in NAMES:
        page = tab("/transactions")
        links = page.locator("td.id a")
        texts = links.evaluate_all("all => all.map((one) => one.textContent)")
        links.nth(texts.index(name)).click()
        assert page.locator("h1 .mono").evaluate("one => one.textContent") == name


def test_a_name_that_is_two_things_offers_both(tab, server):
    begin(server, "orders-0").abort_transaction(WAIT_S)
    page = tab("/explain?subject=orders-0")
    page.get_by_role("link", name="the transaction orders-0").click()
    page.get_by_text("Its last transaction was aborted").wait_for()
    page.go_back()
    page.get_by_role("link", name="the partition orders-0").click()
    page.get_by_role("heading", name="partition orders-0").wait_for()


def test_pages_tell_the_same_without_scripts(tab, server):
    begin(server, "no-scripts")
    page = tab("/transactions", java_script_enabled=False)
    page.get_by_role("link", name="no-scripts").click()
    page.get_by_role("heading", name="no-scripts").wait_for()
    found = page.locator("body").inner_text()
    assert "this page cannot end it: oncelog transactions terminate no-scripts" in found
    assert "reloads this page every 30 s" in found


@pytest.mark.parametrize(
    "path", ["/transaction", "/partition?topic=orders&partition=many", "/producers?producer_id=x"]
)
def test_a_wrong_address_is_told_in_a_page(tab, server, path):
    page = tab(path, expects=("422",))
    assert page.locator(".note.warn").count() == 1
    page.get_by_role("link", name="Transactions").click()
    page.get_by_role("heading", name="Transactions").wait_for()


def test_a_transaction_that_ended_meanwhile_is_left_alone(tab, server):
    producer = begin(server, "meanwhile")
    page = tab("/transaction?id=meanwhile", expects=("409",))
    page.get_by_role("button", name="What would ending it do?").click()
    act = page.get_by_role("button", name="Fence the producer and abort")
    act.wait_for()
    producer.commit_transaction(WAIT_S)
    producer.begin_transaction()
    producer.produce("orders", b"the next one", partition=0)
    assert producer.flush(WAIT_S) == 0
    act.click()
    page.get_by_role("status").get_by_text("has ended meanwhile").wait_for()
    found = Rest(server.gateway).get("/v1/transactions/meanwhile")
    assert found["state"] == "Ongoing", "the next transaction was ended"
    producer.commit_transaction(WAIT_S)


def test_the_keyboard_alone_ends_a_transaction(tab, server):
    begin(server, "by-keyboard")
    page = tab("/transaction?id=by-keyboard")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.step") == "dry":
            break
    page.keyboard.press("Enter")
    page.locator("[data-step=act]:focus").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("status").get_by_text("its producer is fenced").wait_for()
    page.get_by_text("fenced-by-operator").wait_for()


def test_the_back_button_leads_to_a_page_that_lives(tab, server):
    page = tab("/transactions")
    page.get_by_role("link", name="Nodes").click()
    page.get_by_role("heading", name="Nodes and shards").wait_for()
    page.go_back()
    begin(server, "after-back")
    page.get_by_role("row").filter(has_text="after-back").wait_for()


def test_what_is_selected_to_copy_stays_selected(tab, server):
    producer = begin(server, "selected")
    page = tab("/transaction?id=selected")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('dt code'))")
    chosen = page.evaluate("String(getSelection())")
    assert "oncelog transactions" in chosen
    producer.commit_transaction(WAIT_S)
    page.evaluate("new Promise((done) => setTimeout(done, 1_000))")
    assert page.evaluate("String(getSelection())") == chosen
    page.evaluate("getSelection().removeAllRanges()")
    page.get_by_text("CompleteCommit").first.wait_for()


def test_an_opened_part_of_the_reference_stays_open(tab, server):
    page = tab("/docs")
    page.locator("summary").first.click()
    with page.expect_response(lambda one: one.url.endswith("/docs")):
        pass
    page.evaluate("new Promise((done) => setTimeout(done, 200))")
    assert page.locator("details[open]").count() == 1


def test_pages_that_nobody_looks_at_hold_no_connections(browser, server):
    context = browser.new_context(base_url=server.gateway)
    for _ in range(TABS_OF_ONE_BROWSER):
        page = context.new_page()
        assert page.goto("/transactions", wait_until="load", timeout=5_000).ok
        page.evaluate(
            "Object.defineProperty(document, 'hidden', { get: () => true });"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
    context.close()


@pytest.mark.timeout(120)
def test_a_page_lives_through_a_restart_of_the_gateway(tab, server):
    page = tab("/transactions", expects=("ERR_", "Failed to load"))
    page.evaluate("window.sameDocument = true")
    state = page.locator("#state")
    server.kill()
    state.get_by_text("the gateway does not respond").wait_for()
    server.start()
    state.get_by_text("live", exact=True).wait_for()
    begin(server, "after-restart")
    page.get_by_role("row").filter(has_text="after-restart").get_by_text("Ongoing").wait_for()
    assert page.evaluate("window.sameDocument")
