"""One target for all workloads: each makes topics of its own."""

import pytest
from tests.targets import open_target


@pytest.fixture(scope="session")
def target(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONCELOG_STORAGE_CLEANER_INTERVAL_MS", "200")
        patch.setenv("ONCELOG_LISTENER_AUTO_CREATE_TOPICS", "false")
        with open_target(tmp_path_factory.mktemp("workloads")) as running:
            yield running
