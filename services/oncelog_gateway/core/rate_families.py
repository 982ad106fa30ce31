"""The families of rates that a gateway remembers, with their units and titles. A family is one kind of number, such as
bytes produced, and has a line for each topic, group or process.
"""

from typing import Final, Literal, NamedTuple

from oncelog.process.latency_bounds import LATENCY_BOUNDS_S
from oncelog_gateway.core.rate_ring import Group

Unit = Literal[
    "bytes/s", "records/s", "transactions/s", "seconds", "records", "markers", "bytes", "cores"
]

FamilyName = Literal[
    "produced_bytes",
    "produced_records",
    "consumed_bytes",
    "consumed_records",
    "transactions",
    "commit_latency",
    "lso_lag",
    "group_readable",
    "group_held_back",
    "marker_queue",
    "cpu",
    "memory",
]
TOPIC_FAMILIES: Final = ("produced_records", "produced_bytes", "consumed_records", "consumed_bytes")
TOPICS_MAX: Final = 50
HELD_MAX: Final = 40
NAMES_OF_GROUPS_MAX: Final = 60
NODES_MAX: Final = 64
BUCKETS: Final = tuple(f"{number:02}" for number in range(len(LATENCY_BOUNDS_S) + 1))
GROUPS: Final = {
    "topic": Group(TOPIC_FAMILIES, is_growth=True, names_max=TOPICS_MAX),
    "ended": Group(("transactions",), is_growth=True, names_max=2),
    "buckets": Group(("marker_buckets",), is_growth=True, names_max=len(BUCKETS)),
    "held": Group(("lso_lag",), is_growth=False, names_max=HELD_MAX, absent=0.0),
    "group": Group(
        ("group_readable", "group_held_back"), is_growth=False, names_max=NAMES_OF_GROUPS_MAX
    ),
    "markers": Group(("marker_queue",), is_growth=False, names_max=1),
    "cpu": Group(("cpu",), is_growth=True, names_max=NODES_MAX),
    "memory": Group(("memory",), is_growth=False, names_max=NODES_MAX),
}


class Family(NamedTuple):
    name: str
    title: str
    unit: Unit
    of: str
    """The kind of thing that names a line of this family, such as a topic."""
    note: str = ""


FAMILIES: Final[tuple[Family, ...]] = (
    Family(
        "produced_bytes",
        "Produced",
        "bytes/s",
        "topic",
        "what clients wrote, as their batches came",
    ),
    Family("produced_records", "Records produced", "records/s", "topic"),
    Family(
        "consumed_bytes",
        "Consumed",
        "bytes/s",
        "topic",
        "whole batches, as consumers got them",
    ),
    Family(
        "consumed_records",
        "Records consumed",
        "records/s",
        "topic",
        "offsets: markers and aborted records as well",
    ),
    Family("transactions", "Transactions ended", "transactions/s", "outcome"),
    Family(
        "commit_latency",
        "Commit latency",
        "seconds",
        "quantile",
        "from EndTxn's decision to the last marker: then read_committed readers see it",
    ),
    Family(
        "lso_lag",
        "LSO lag",
        "records",
        "partition",
        "held back by open transactions; the largest of each step",
    ),
    Family(
        "group_readable",
        "Group lag, readable",
        "records",
        "group",
        "what read_committed readers can pass now",
    ),
    Family(
        "group_held_back",
        "Group lag, held back",
        "records",
        "group",
        "what they get when an open transaction ends",
    ),
    Family("marker_queue", "Markers that wait", "markers", "queue"),
    Family("cpu", "CPU", "cores", "process"),
    Family("memory", "Memory", "bytes", "process", "resident"),
)
FAMILY_OF: Final = {one.name: one for one in FAMILIES}
