"""The `kind` of a workload in a scenario file, and what it makes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from robustness.workloads.bank import Bank, BankParameters
from robustness.workloads.churn import Churn, ChurnParameters
from robustness.workloads.compaction import Compaction, CompactionParameters
from robustness.workloads.contract import Workload
from robustness.workloads.copier import Copier, CopierParameters
from robustness.workloads.meddling import Meddling, MeddlingParameters
from robustness.workloads.members import Members, MembersParameters
from robustness.workloads.parameters import Parameters
from robustness.workloads.plain import Plain, PlainParameters
from robustness.workloads.sink import Sink, SinkParameters
from robustness.workloads.token_ring import Ring, TokenRingParameters
from robustness.workloads.transactions import Transactions, TransactionsParameters
from robustness.workloads.zombies import (
    Hijack,
    HijackParameters,
    Zombies,
    ZombiesParameters,
)


@dataclass(frozen=True, slots=True)
class Kind:
    parameters: type[Parameters]
    make: Callable[[str, Any], Workload]


KINDS: Final[Mapping[str, Kind]] = {
    "bank": Kind(BankParameters, Bank),
    "churn": Kind(ChurnParameters, Churn),
    "compaction": Kind(CompactionParameters, Compaction),
    "copier": Kind(CopierParameters, Copier),
    "hijack": Kind(HijackParameters, Hijack),
    "meddling": Kind(MeddlingParameters, Meddling),
    "members": Kind(MembersParameters, Members),
    "plain": Kind(PlainParameters, Plain),
    "sink": Kind(SinkParameters, Sink),
    "token_ring": Kind(TokenRingParameters, Ring),
    "transactions": Kind(TransactionsParameters, Transactions),
    "zombies": Kind(ZombiesParameters, Zombies),
}


def make_workload(kind: str, name: str, parameters: Mapping[str, object]) -> Workload:
    """`name` begins its topics, groups and transactional ids. Raises ValueError for an unknown kind, and for a
    parameter that is unknown or out of bounds."""
    found = KINDS.get(kind)
    if found is None:
        raise ValueError(f"no workload {kind!r}; there are {', '.join(KINDS)}")
    return found.make(name, found.parameters.model_validate(dict(parameters)))
