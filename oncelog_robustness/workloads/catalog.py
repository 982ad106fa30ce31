"""The catalog of workloads: for each `kind` that a scenario file may name, its parameters and the workload that is
made of them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from oncelog_robustness.history import RECORDS_DELETED_FROM
from oncelog_robustness.workloads.bank import Bank, BankParameters
from oncelog_robustness.workloads.booking import BookingParameters
from oncelog_robustness.workloads.churn import Churn, ChurnParameters
from oncelog_robustness.workloads.compaction import Compaction, CompactionParameters
from oncelog_robustness.workloads.contract import Workload
from oncelog_robustness.workloads.copier import Copier, CopierParameters
from oncelog_robustness.workloads.meddling import Meddling, MeddlingParameters
from oncelog_robustness.workloads.members import Members, MembersParameters
from oncelog_robustness.workloads.parameters import Parameters
from oncelog_robustness.workloads.plain import Plain, PlainParameters
from oncelog_robustness.workloads.prepared import Prepared
from oncelog_robustness.workloads.sink import Sink, SinkParameters
from oncelog_robustness.workloads.token_ring import Ring, TokenRingParameters
from oncelog_robustness.workloads.transactions import Transactions, TransactionsParameters
from oncelog_robustness.workloads.zombies import (
    Hijack,
    HijackParameters,
    Zombies,
    ZombiesParameters,
)


@dataclass(frozen=True, slots=True)
class Kind:
    parameters: type[Parameters]
    make: Callable[[str, Any], Workload]
    deletes_records: bool = False
    """True if the workload deletes records of the topic that has its name."""
    is_simulated_only: bool = False


KINDS: Final[Mapping[str, Kind]] = {
    "bank": Kind(BankParameters, Bank),
    "churn": Kind(ChurnParameters, Churn, deletes_records=True),
    "compaction": Kind(CompactionParameters, Compaction),
    "copier": Kind(CopierParameters, Copier),
    "hijack": Kind(HijackParameters, Hijack),
    "meddling": Kind(MeddlingParameters, Meddling),
    "members": Kind(MembersParameters, Members),
    "plain": Kind(PlainParameters, Plain),
    "prepared": Kind(BookingParameters, Prepared, is_simulated_only=True),
    "sink": Kind(SinkParameters, Sink),
    "token_ring": Kind(TokenRingParameters, Ring),
    "transactions": Kind(TransactionsParameters, Transactions),
    "zombies": Kind(ZombiesParameters, Zombies),
}


def make_workload(kind: str, name: str, parameters: Mapping[str, object]) -> Workload:
    """Make a workload. `name` begins its topics, groups and transactional ids.
    Raises ValueError for an unknown kind, and for a parameter that is unknown or out of bounds."""
    found = KINDS.get(kind)
    if found is None:
        raise ValueError(f"no workload {kind!r}; there are {', '.join(KINDS)}")
    return found.make(name, found.parameters.model_validate(dict(parameters)))


def facts_about(workloads: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the facts about these workloads that a history must have for the checkers: which topics lose records
    by deletion. Each workload is given as in a scenario, by `kind` and perhaps `name`."""
    topics = [
        str(one.get("name", one["kind"]))
        for one in workloads
        if one["kind"] in KINDS and KINDS[one["kind"]].deletes_records
    ]
    return {RECORDS_DELETED_FROM: " ".join(topics)}
