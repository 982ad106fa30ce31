"""The console's login in a real Chromium: a token, a session, an act with a reason, and the way out."""

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.pages.clients import WAIT_S, begin

from oncelog_server.demo.processes import OncelogServer

axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="`make pages` installs axe"
)

ADMIN = "b" * 64


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secured")
    (folder / "admin-token").write_text(ADMIN)
    environment = {
        "ONCELOG_GATEWAY_AUTHENTICATION": "required",
        "ONCELOG_GATEWAY_ADMIN_TOKEN_FILE": str(folder / "admin-token"),
    }
    with OncelogServer(folder / "data", environment=environment) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        (created,) = admin.create_topics([NewTopic("orders", 1, 1)]).values()
        created.result(WAIT_S)
        yield running


def test_a_login_leads_to_an_act_and_out_again(tab, server):
    held = begin(server, "slow/one")
    page = tab("/transaction?id=slow%2Fone", expects=["401"])
    page.wait_for_url("**/login?next=*")
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    page.get_by_label("API token").fill("wrong")
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    page.get_by_label("API token").fill(ADMIN)
    page.keyboard.press("Enter")
    page.wait_for_url("**/transaction?id=slow%2Fone")
    assert page.evaluate("document.cookie") == "", "no script reads the session"
    page.get_by_role("button", name="What would ending it do?").click()
    page.get_by_label("reason").fill("ticket 7 ✓")
    page.get_by_role("button", name="Fence the producer and abort").click()
    page.locator(".told .good").wait_for()
    page.goto("/audit")
    shown = page.locator("main").inner_text()
    assert "admin-token-file at 127.0.0.1" in shown
    assert "ticket 7 ✓" in shown
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/login")
    page.goto("/audit")
    page.wait_for_url("**/login?next=%2Faudit")
    del held
