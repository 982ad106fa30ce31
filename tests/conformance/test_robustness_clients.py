"""The adapters of `robustness/clients` against a real oncelog, behind a proxy that loses answers."""

import asyncio

import pytest
from robustness.clients.aiokafka import AiokafkaClients
from robustness.clients.tv2 import Tv2Clients
from tests.conformance.cutting_proxy import CuttingProxy
from tests.contracts.robustness_clients import ClientContract, Place
from tests.targets import open_target


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    with (
        CuttingProxy() as proxy,
        open_target(tmp_path_factory.mktemp("oncelog"), advertised_port=proxy.port) as target,
    ):
        proxy.target_port = int(target.bootstrap.rpartition(":")[2])
        yield proxy


class ProxiedPlace(Place):
    def __init__(self, clients, prefix, proxy):
        super().__init__(clients, prefix)
        self._proxy = proxy

    def lose_answers(self, api_key, times):
        self._proxy.swallow_next_reply(api_key, times)


class OnProcesses(ClientContract):
    def clients(self, bootstrap):
        raise AssertionError("a subclass names its library")

    @pytest.fixture(autouse=True)
    def _place(self, proxy):
        clients = self.clients([f"127.0.0.1:{proxy.port}"])
        self.place = ProxiedPlace(clients, clients.library, proxy)

    def run(self, scenario):
        asyncio.run(scenario(self.place))


class TestAiokafka(OnProcesses):
    def clients(self, bootstrap):
        return AiokafkaClients(bootstrap)


class TestTv2(OnProcesses):
    def clients(self, bootstrap):
        return Tv2Clients(bootstrap)
