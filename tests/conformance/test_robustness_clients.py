"""The adapters of `oncelog_robustness/clients` against a real oncelog, behind a proxy that loses answers."""

import asyncio

import pytest
from oncelog_robustness.clients import java_process
from oncelog_robustness.clients.aiokafka import AiokafkaClients
from oncelog_robustness.clients.confluent import ConfluentClients
from oncelog_robustness.clients.contract import Refused
from oncelog_robustness.clients.java import JavaClients
from oncelog_robustness.clients.kafka_python import KafkaPythonClients
from oncelog_robustness.clients.login import choose_login
from oncelog_robustness.clients.oncelog import OncelogClients
from tests.conformance.cutting_proxy import CuttingProxy, open_behind
from tests.conformance.java_programs import CACHE, fetched_jars
from tests.conformance.logins import asked_login
from tests.contracts.robustness_clients import COMMITTED, ClientContract, Place, next_positions


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    with CuttingProxy() as proxy, open_behind(proxy, tmp_path_factory.mktemp("oncelog")):
        choose_login(asked_login())
        yield proxy
        choose_login(None)


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


class TestOncelog(OnProcesses):
    def clients(self, bootstrap):
        return OncelogClients(bootstrap)


class JoinsWhilePolled(OnProcesses):
    """Members of a library that joins a group again only in `poll`."""

    async def test_offsets_of_a_generation_that_is_over_are_refused(self):
        """It cannot be surprised: an old membership is shown instead."""

        admin = await self.place.make_topic(partitions=2)
        group, partition = f"{self.place.prefix}-group", (self.place.topic, 0)
        member = await self.place.clients.consumer("member", COMMITTED, group)
        await member.subscribe([self.place.topic])
        await next_positions(member)
        before = member.group_metadata
        other = await self.place.clients.consumer("other", COMMITTED, group)
        await other.subscribe([self.place.topic])
        await asyncio.gather(next_positions(member), next_positions(other))
        now, member.group_metadata = member.group_metadata, before
        producer = await self.place.producer()
        await producer.begin()
        with pytest.raises(Refused):
            await producer.send_offsets({partition: 1}, member)
        await producer.abort()
        member.group_metadata = now
        await producer.begin()
        await producer.send_offsets({partition: 2}, member)
        await producer.commit()
        assert await admin.committed(group, [partition]) == {partition: 2}
        for one in (member, other):
            await one.close()


class TestConfluent(JoinsWhilePolled):
    def clients(self, bootstrap):
        return ConfluentClients(bootstrap)


class TestKafkaPython(JoinsWhilePolled):
    def clients(self, bootstrap):
        return KafkaPythonClients(bootstrap)


@pytest.fixture(scope="module")
def worker():
    """The Java program, compiled against the jars of the tests."""
    jars = fetched_jars(CACHE)
    assert java_process.prepare(f"{jars}/*") == ""
    yield
    java_process.forget()


@pytest.mark.usefixtures("worker")
class TestJava(JoinsWhilePolled):
    def clients(self, bootstrap):
        return JavaClients(bootstrap)
