"""A two-phase transaction in the console: marked in the lists, committed or aborted on its own page (KIP-939)."""

import pytest
from tests.incidents.scenes import new_topic
from tests.incidents.two_phase import keep_and_die, leave_prepared, two_phase_target
from tests.integration.client.writers import fresh

from oncelog_server.cli.rest import Rest

axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="`make pages` installs axe"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with two_phase_target(tmp_path_factory.mktemp("oncelog")) as running:
        yield running


def left(server, *, is_kept=False):
    """Its id and its text."""
    name, topic = fresh("pay"), new_topic(server.bootstrap, fresh("t"))
    prepared = leave_prepared(server.bootstrap, name, topic, b"a", b"b")
    if is_kept:
        assert keep_and_die(server.bootstrap, name) == prepared
    return name, prepared


def test_the_list_marks_what_no_timeout_ends(tab, server):
    name, prepared = left(server, is_kept=True)
    page = tab("/transactions")
    page.get_by_label("only two-phase").check()
    page.get_by_role("button", name="Show").click()
    row = page.get_by_role("row").filter(has_text=name)
    row.get_by_text(f"two-phase, {prepared}, kept for").wait_for()


@pytest.mark.parametrize("is_kept", [False, True])
def test_its_page_is_accessible_and_fits_a_phone(tab, server, scheme, is_kept):
    name, prepared = left(server, is_kept=is_kept)
    page = tab(f"/transaction?id={name}", width=390, scheme=scheme)
    page.get_by_text("and holds back 2 offsets in").wait_for()
    page.get_by_text(
        "It was kept for the newer producer" if is_kept else "Stop the application"
    ).wait_for()
    assert page.get_by_role("heading", name=f"Decide {prepared}").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize(
    ("outcome", "question", "state"),
    [
        ("Commit", "What would committing it do?", "CompleteCommit"),
        ("Abort", "What would aborting it do?", "CompleteAbort"),
    ],
)
def test_it_is_decided_in_two_steps_by_its_identity(tab, server, outcome, question, state):
    name, prepared = left(server)
    page = tab(f"/transaction?id={name}")
    act = page.get_by_role("button", name=f"{outcome} {prepared} of {name}")
    assert act.is_hidden()
    page.get_by_role("button", name=question).click()
    act.wait_for()
    page.get_by_text(f"transaction {prepared} of '{name}', in 1 partition, would be").wait_for()
    assert Rest(server.gateway).get(f"/v1/transactions/{name}", {})["state"] == "Ongoing"
    act.click()
    page.get_by_text(state, exact=True).first.wait_for()
    page.goto("/audit")
    acts = page.get_by_role("row").filter(has_text=name).filter(has_text="complete")
    acts.filter(has_text="done").wait_for()
    assert acts.count() == 2, "the dry run is one as well"
