"""One target for all workloads: each makes topics of its own."""

import pytest
from tests.targets import open_target


@pytest.fixture(scope="session")
def target(tmp_path_factory):
    with open_target(tmp_path_factory.mktemp("workloads")) as running:
        yield running
