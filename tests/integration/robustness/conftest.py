"""One target for all workloads: each makes topics of its own."""

from contextlib import ExitStack

import pytest
from tests.targets import open_target


@pytest.fixture(scope="session")
def target(tmp_path_factory):
    with ExitStack() as stack:
        # It lives as long as the session; its environment must not, or the tests after these inherit it.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ONCELOG_STORAGE_CLEANER_INTERVAL_MS", "200")
            patch.setenv("ONCELOG_LISTENER_AUTO_CREATE_TOPICS", "false")
            running = stack.enter_context(open_target(tmp_path_factory.mktemp("workloads")))
        yield running
