"""What the injector of processes takes for a process that ended by itself."""

import asyncio

import pytest
from oncelog_robustness.chaos.injector import ProcessInjector
from oncelog_robustness.fault_plan import FaultKind
from tests.unit.robustness.injecting import fault

from oncelog_server.cluster.cluster import REDIS


class Paper:
    """A cluster of Redis alone, on paper."""

    members = ()

    def __init__(self):
        self.state = "running"
        self.as_it_is_read = lambda: None

    def process(self, name):
        return object() if name == REDIS else None

    def state_of(self, name):
        amid, self.as_it_is_read = self.as_it_is_read, lambda: None
        amid()
        return self.state

    def kill(self, name):
        self.state = "dead"

    def start_one(self, name, timeout_s):
        self.state = "running"

    def log_of(self, name):
        return f"{name}.log"


@pytest.fixture
def injector():
    made = ProcessInjector(Paper(), None, None, lambda draw: "")
    yield made
    made.close()


def test_a_process_that_no_fault_killed_ended_by_itself(injector):
    injector._cluster.state = "dead"
    asyncio.run(injector.look_for_dead())
    assert injector.findings == ["redis ended by itself; see redis.log"]
    assert injector._cluster.state == "running"


def test_a_fault_that_begins_amid_the_look_is_no_finding(injector):
    kill = fault(FaultKind.REDIS_OUTAGE, REDIS, strength=0.1)

    async def look():
        loop = asyncio.get_running_loop()
        begins = lambda: asyncio.run_coroutine_threadsafe(injector.begin(kill), loop).result()  # noqa: E731
        injector._cluster.as_it_is_read = begins
        await injector.look_for_dead()

    asyncio.run(look())
    assert injector._cluster.state == "dead"
    assert not injector.findings
