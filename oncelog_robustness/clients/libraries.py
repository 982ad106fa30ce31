"""The adapters of all client libraries, by the library's name. A library is imported only when its clients are
made, because the simulator must not import one that has threads."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from oncelog_robustness.clients.contract import Clients


def _aiokafka(bootstrap: Sequence[str]) -> Clients:
    from oncelog_robustness.clients.aiokafka import AiokafkaClients

    return AiokafkaClients(bootstrap)


def _oncelog(bootstrap: Sequence[str]) -> Clients:
    from oncelog_robustness.clients.oncelog import OncelogClients

    return OncelogClients(bootstrap)


def _confluent(bootstrap: Sequence[str]) -> Clients:
    from oncelog_robustness.clients.confluent import ConfluentClients

    return ConfluentClients(bootstrap)


def _kafka_python(bootstrap: Sequence[str]) -> Clients:
    from oncelog_robustness.clients.kafka_python import KafkaPythonClients

    return KafkaPythonClients(bootstrap)


def _java(bootstrap: Sequence[str]) -> Clients:
    from oncelog_robustness.clients.java import JavaClients

    return JavaClients(bootstrap)


LIBRARIES: Final[Mapping[str, Callable[[Sequence[str]], Clients]]] = {
    "aiokafka": _aiokafka,
    "oncelog": _oncelog,
    "confluent-kafka": _confluent,
    "kafka-python": _kafka_python,
    "java": _java,
}
"""For each library's name, a function that makes its `Clients` for a list of `host:port`."""

IN_CHAOS: Final = ("aiokafka", "oncelog", "confluent-kafka")
"""The libraries that take part in chaos where none are named."""

CHOSEN_IN_CHAOS: Final = (*IN_CHAOS, "kafka-python")
"""The libraries that chaos may be told to use. Java is compiled first, which only `oncelog verify` does."""

SIMULATED: Final = ("aiokafka", "oncelog")
"""The libraries that are pure asyncio, so that they run in the simulator."""
