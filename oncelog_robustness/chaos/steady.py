"""The pulse of the cluster: one producer that commits a small transaction after the other, into
every partition of a topic.

It hardly pauses, and a producer that cannot go on is replaced at once: a gap between its commits is a time in which an
application could not commit. Its transactions are judged like all others.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from oncelog_robustness.clients.contract import ClientError, Clients
from oncelog_robustness.history import Partition
from oncelog_robustness.workloads import catalog
from oncelog_robustness.workloads.contract import ClientProcess, Lab, Workload
from oncelog_robustness.workloads.lives import live_on
from oncelog_robustness.workloads.parameters import Parameters, Partitions, Pause, Timeout
from oncelog_robustness.workloads.reading import DECIDED_LIMIT_MS, final_reads, make_topic
from oncelog_robustness.workloads.transacting import OpenTransaction, Planned, Transactor

KIND: Final = "steady"


class SteadyParameters(Parameters):
    library: str = ""
    """The client library to use; the last of the lab's if the lab does not have this one."""
    partitions: Partitions = 3
    pause_ms: Pause = 20
    rest_ms: Pause = 100
    transaction_timeout_ms: Timeout = 10_000


class Steady:
    def __init__(self, name: str, parameters: SteadyParameters) -> None:
        self.name = name
        self.parameters = parameters
        self.partitions: Sequence[Partition] = [
            (name, number) for number in range(parameters.partitions)
        ]

    async def setup(self, lab: Lab) -> None:
        await make_topic(lab, self.name, self.parameters.partitions)

    async def start(self, lab: Lab) -> None:
        clients, given = self._clients(lab), self.parameters

        async def live(process: ClientProcess) -> None:
            client = Transactor(lab, process, clients, self.name, given.transaction_timeout_ms)
            await self._live(client)

        await live_on(lab, self.name, live, life_ms=0, rest_ms=given.rest_ms)

    async def check(self, lab: Lab) -> None:
        limit_ms = self.parameters.transaction_timeout_ms + DECIDED_LIMIT_MS
        await final_reads(lab, f"{self.name}-check", self.partitions, decided_limit_ms=limit_ms)

    def _clients(self, lab: Lab) -> Clients:
        wanted = self.parameters.library
        return next((one for one in lab.clients if one.library == wanted), lab.clients[-1])

    async def _live(self, client: Transactor) -> None:
        async def body(opened: OpenTransaction) -> None:
            await opened.send_all([Planned(one, client.unique()) for one in self.partitions])

        try:
            await client.open()
            while not client.lab.is_over:
                ended = await client.transact(body)
                if not ended.is_usable:
                    return
                await client.lab.sleep(self.parameters.pause_ms)
            await client.close()
        except ClientError:
            return


def make_workload(kind: str, name: str, parameters: Mapping[str, object]) -> Workload:
    """Return a new workload of this kind: one of the catalog, or the steady producer that only chaos has."""
    if kind == KIND:
        return Steady(name, SteadyParameters.model_validate(dict(parameters)))
    return catalog.make_workload(kind, name, parameters)
