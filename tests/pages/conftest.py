"""One browser and one `oncelog up` for all tests of pages."""

import os
import shutil

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.pages.clients import WAIT_S, wake
from tests.targets import open_target

playwright = pytest.importorskip("playwright.sync_api", reason="`make pages` installs Playwright")

WAIT_MS = 10_000
CHROMIUM = os.environ.get("ONCELOG_TEST_CHROMIUM") or shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        # A transaction can be left hanging then, as with Kafka before 3.6.
        patched.setenv("ONCELOG_STORAGE_TRANSACTION_PARTITION_VERIFICATION_ENABLE", "false")
        with open_target(tmp_path_factory.mktemp("oncelog")) as running:
            admin = AdminClient({"bootstrap.servers": running.bootstrap})
            (created,) = admin.create_topics([NewTopic("orders", 1, 1)]).values()
            created.result(WAIT_S)
            wake(running)
            yield running


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium, or set ONCELOG_TEST_CHROMIUM")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture(params=["light", "dark"])
def scheme(request):
    return request.param


@pytest.fixture
def tab(browser, server):
    """Opens pages; every error that the browser tells of fails the test, but those that hold one of `expected`."""
    errors, contexts, expected = [], [], []

    def opened(path, *, width=1200, scheme="light", expects=(), **more):
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            base_url=server.gateway,
            **more,
        )
        expected.extend(expects)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(path)
        return page

    yield opened
    for one in contexts:
        one.close()
    assert not [one for one in errors if not any(word in one for word in expected)]
