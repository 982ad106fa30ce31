"""Every page with ten thousand transactional ids: what the server takes, and what the browser does until it has the
whole page. `python -m bench --only console` measures the same against a cluster."""

import statistics

import pytest
from bench.console_workload import PAGE_BAR_MS, PATHS, fill, wanted_of
from tests.targets import open_target

REPEATS = 5
TIMING = "performance.getEntriesByType('navigation')[0]"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with open_target(tmp_path_factory.mktemp("many")) as running:
        fill(running.bootstrap, wanted_of(is_quick=False), 1)
        yield running


@pytest.mark.timeout(300)
def test_every_page_comes_within_300_ms(browser, server, capsys):
    context = browser.new_context(base_url=server.gateway)
    page = context.new_page()
    medians = {}
    for path in PATHS:
        answered, ready = [], []
        for _ in range(REPEATS):
            page.goto(path)
            answered.append(page.evaluate(f"{TIMING}.responseEnd"))
            ready.append(page.evaluate(f"{TIMING}.domContentLoadedEventEnd"))
        medians[path] = statistics.median(ready)
        with capsys.disabled():
            print(
                f"\n{path:40} answered {statistics.median(answered):4.0f} ms, at most {max(answered):4.0f}; "
                f"ready {medians[path]:4.0f} ms, at most {max(ready):4.0f}",
                end="",
            )
    context.close()
    slow = {path: f"{taken:.0f} ms" for path, taken in medians.items() if taken > PAGE_BAR_MS}
    assert not slow, slow
