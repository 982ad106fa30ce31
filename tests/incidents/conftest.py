"""One cluster for all incidents that need processes to die."""

import pytest
from tests.targets import cluster_folder

from oncelog_server.cluster.cluster import Cluster


@pytest.fixture(scope="session")
def cluster():
    with cluster_folder() as folder, Cluster(folder) as running:
        yield running


@pytest.fixture
def whole(cluster):
    """What a test broke is whole again before the next."""
    yield
    cluster.start_dead()
