"""From the overview to a record and what became of it, as a person goes: by links, without a script, on a phone."""

import json

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.pages.clients import WAIT_S

axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="`make pages` installs axe"
)

TOPIC = "shipments"
LONG = "every word of a long story " * 80


@pytest.fixture(scope="module")
def shipments(server):
    """Committed 0 to 2 and a marker; aborted 4 and a marker; open 6; plain 7 and 8, which is no text."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    (created,) = admin.create_topics([NewTopic(TOPIC, 1, 1)]).values()
    created.result(WAIT_S)
    settings = {"bootstrap.servers": server.bootstrap, "log_level": 0}
    shipper = confluent_kafka.Producer({**settings, "transactional.id": "shipper/1"})
    shipper.init_transactions(WAIT_S)
    shipper.begin_transaction()
    for number in range(3):
        value = json.dumps({"order": number, "lines": [{"sku": "A-1", "quantity": 2}]})
        shipper.produce(TOPIC, value, f"order-{number}", headers={"source": "web"})
    shipper.commit_transaction(WAIT_S)
    shipper.begin_transaction()
    shipper.produce(TOPIC, b"never", "order-9")
    shipper.flush(WAIT_S)
    shipper.abort_transaction(WAIT_S)
    still = confluent_kafka.Producer(
        {**settings, "transactional.id": "still-open", "transaction.timeout.ms": 600_000}
    )
    still.init_transactions(WAIT_S)
    still.begin_transaction()
    still.produce(TOPIC, b"x")
    assert still.flush(WAIT_S) == 0
    plain = confluent_kafka.Producer(settings)
    plain.produce(TOPIC, LONG, "long")
    plain.produce(TOPIC, b"\x00\x00\x00\x00\x2a\xff\xfe", "avro")
    assert plain.flush(WAIT_S) == 0
    yield TOPIC
    still.abort_transaction(WAIT_S)


def row(page, offset):
    return page.locator(f"tr.row:has(a[href$='&offset={offset}'])")


def test_a_record_leads_to_its_transaction_in_few_clicks(tab, shipments):
    """Overview, topics, topic, records, its transaction; the filter in between."""
    page = tab("/")
    page.get_by_role("link", name="Topics", exact=True).click()
    page.get_by_role("link", name=TOPIC, exact=True).click()
    page.get_by_role("link", name="Browse its records").click()
    page.wait_for_url("**/records?*")
    assert page.locator("tr.row").count() == 9
    page.get_by_label("key is").fill("order-9")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**key=order-9**")
    found = page.locator("tr.row")
    assert found.count() == 1
    assert "aborted" in found.inner_text()
    found.get_by_role("link", name="shipper/1").click()
    page.get_by_role("heading", name="shipper/1").wait_for()


def test_each_outcome_has_its_word(tab, shipments):
    page = tab(f"/records?topic={TOPIC}")
    words = {0: "committed", 3: "commit marker", 4: "aborted", 5: "abort marker", 6: "open"}
    for offset, word in {**words, 7: "no transaction, held back"}.items():
        assert word in row(page, offset).inner_text(), offset
    counts = page.locator(".counts").inner_text()
    assert "read_committed gets 3 of these 7 records" in counts
    page.get_by_role("link", name="What read_committed gets").click()
    page.wait_for_url("**isolation=read_committed**")
    assert page.locator("tr.row").count() == 3
    page.get_by_role("link", name=f"why {TOPIC}-0 is held").click()
    page.get_by_text("still-open").first.wait_for()


def test_a_long_value_is_folded_and_unfolds(tab, shipments):
    page = tab(f"/records?topic={TOPIC}")
    one = row(page, 7)
    assert one.bounding_box()["height"] < 60
    whole = page.get_by_role("group", name="Value of offset 7, scrollable")
    assert whole.is_hidden()
    one.locator("summary").click()
    assert "The first" not in row(page, 0).inner_text()
    assert whole.inner_text().startswith("every word of a long story every")
    assert "The first" in whole.inner_text()
    page.get_by_role("link", name="this record, also in hex").locator("visible=true").click()
    page.wait_for_url("**/record?*")
    assert len(page.locator("#value pre").first.inner_text()) == len(LONG)


def test_json_is_in_lines_and_bytes_are_in_hex(tab, shipments):
    page = tab(f"/record?topic={TOPIC}&partition=0&offset=0")
    assert '"sku": "A-1"' in page.locator("#value pre").first.inner_text()
    page.locator("#value summary", has_text="Hex").click()
    assert "7b 22 6f 72 64 65 72 22" in page.get_by_label("Value in hex").inner_text()
    page.goto(f"/record?topic={TOPIC}&partition=0&offset=8")
    assert "00 00 00 00 2a ff fe" in page.get_by_label("Value in hex").inner_text()
    assert "Confluent schema 42" in page.locator("main").inner_text()


@pytest.mark.parametrize(
    ("path", "is_read_again"), [("/topic?name=", True), ("/records?topic=", False)]
)
def test_records_stay_while_somebody_reads_them(tab, shipments, path, is_read_again):
    """Other pages are read again every five seconds. This one says how to do it."""
    page = tab("/health")
    page.clock.install()
    page.goto(path + TOPIC)
    asked = []
    page.on("request", lambda one: asked.append(one.url))
    page.clock.fast_forward(6_000)
    page.evaluate("document.title")
    assert bool(asked) == is_read_again
    if not is_read_again:
        page.get_by_role("link", name="read again").click()
        page.wait_for_url(f"**{path}{TOPIC}*")


def test_a_rate_comes_by_itself(tab, server, shipments):
    page = tab("/health")
    producer = confluent_kafka.Producer({"bootstrap.servers": server.bootstrap, "log_level": 0})
    for _ in range(5_000):
        producer.produce("arrivals", b"x" * 100)
    assert producer.flush(WAIT_S) == 0
    page.goto("/topics?topic=arrivals")
    page.get_by_text("Rates are of the last").wait_for()
    row = page.get_by_role("row").filter(has_text="arrivals")
    row.locator("td:nth-child(6)").filter(has_text="KiB").wait_for()
    assert row.locator("td:nth-child(8)").inner_text() == "0 B"


def test_without_scripts_a_value_unfolds_as_well(tab, shipments):
    page = tab(f"/records?topic={TOPIC}", java_script_enabled=False)
    row(page, 0).locator("summary").click()
    assert page.get_by_role("group", name="Value of offset 0, scrollable").is_visible()


@pytest.mark.parametrize("width", [1280, 400, 360])
def test_records_fit_the_screen_and_are_accessible(tab, shipments, width, scheme):
    page = tab(f"/records?topic={TOPIC}", width=width, scheme=scheme)
    row(page, 7).locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    card = page.get_by_role("group", name="Records, scrollable")
    assert card.evaluate("one => one.scrollWidth <= one.clientWidth")
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize(
    ("transaction", "word"),
    [("none", "no transaction"), ("commit", "committed"), ("abort", "aborted")],
)
def test_a_record_is_written_and_looked_at(tab, server, transaction, word):
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    (created,) = admin.create_topics([NewTopic(f"by-hand-{transaction}", 1, 1)]).values()
    created.result(WAIT_S)
    page = tab(f"/records?topic=by-hand-{transaction}")
    page.get_by_text("Write a record").click()
    form = page.locator("form[data-write]")
    form.locator("[name=key]").fill("order-1")
    form.locator("[name=value]").fill('{"amount": 7}')
    form.locator("[name=headers]").fill("source=by hand\nnothing")
    form.locator("[name=transaction]").select_option(transaction)
    form.locator("[data-reason]").fill("ticket 9")
    form.get_by_role("button", name="Write it").click()
    page.get_by_role("link", name="look at it").click()
    shown = page.locator("main")
    page.get_by_role("heading", name="2 headers").wait_for()
    assert word in shown.inner_text()
    assert '"amount": 7' in shown.inner_text()
    page.goto("/audit")
    page.get_by_text("ticket 9").first.wait_for()


def test_the_form_is_accessible_and_fits_a_phone(tab, shipments, scheme):
    page = tab(f"/records?topic={TOPIC}", width=390, scheme=scheme)
    page.get_by_text("Write a record").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
