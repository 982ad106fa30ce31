import pytest
from tests.integration.cli.commands import calling

from oncelog_server.demo.processes import OncelogServer


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with OncelogServer(tmp_path_factory.mktemp("server") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def oncelog(server):
    with calling(server.bootstrap, server.gateway) as call:
        yield call
