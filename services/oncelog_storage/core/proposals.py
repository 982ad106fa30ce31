"""The ISR proposals of this node that the controller has not answered, and the effects of its answers (KIP-497)."""

from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog_storage.core.isr import NEWER_EPOCHS
from oncelog_storage.core.leader_state import Proposal
from oncelog_storage.core.messages import Messages, PartitionCode, ProposedPartition
from oncelog_storage.core.partition import PartitionReplica

HostedT = TypeVar("HostedT", bound=PartitionReplica)

_UNKNOWN = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT})


class Refused(NamedTuple, Generic[HostedT]):
    hosted: HostedT
    proposal: Proposal
    error_code: int


class Answered(NamedTuple, Generic[HostedT]):
    """The result of the controller's answer to ISR proposals: those it refused, and the partitions among them whose
    proposals are over.
    """

    refused: list[Refused[HostedT]]
    settled: list[HostedT]
    """Partitions whose proposals are over. Their leader checks the ISR again."""


class Proposals(Generic[HostedT]):
    """The open ISR proposals, one for each partition. A proposal stays open until it is answered, and is sent again."""

    def __init__(self) -> None:
        self._open: dict[HostedT, Proposal] = {}
        self.shrink_count = 0
        self.expand_count = 0

    def propose(self, hosted: HostedT, isr: list[int]) -> None:
        state = hosted.replicas
        assert state is not None, hosted.partition
        assert state.pending is None, hosted.partition
        if len(isr) < len(state.isr):
            self.shrink_count += 1
        else:
            self.expand_count += 1
        self._open[hosted] = state.propose(isr)

    def to_send(self) -> dict[HostedT, Proposal]:
        """Return the open proposals, without those that newer metadata have made void."""
        self._open = {
            hosted: proposal
            for hosted, proposal in self._open.items()
            if _pending(hosted) is proposal
        }
        return dict(self._open)

    @staticmethod
    def fill(sent: Mapping[HostedT, Proposal], messages: Messages[ProposedPartition]) -> None:
        for hosted, proposal in sent.items():
            message = messages.add()
            message.partition.topic, message.partition.partition = hosted.partition
            message.leader_epoch = proposal.leader_epoch
            message.partition_epoch = proposal.partition_epoch
            message.isr.extend(proposal.isr)

    def refused(self, sent: Mapping[HostedT, Proposal], error_code: int) -> list[HostedT] | None:
        """Drop the proposals of a request that was refused as a whole. Return their partitions, whose leader checks the
        ISR again.

        None: the request is to be sent again, to another controller perhaps.
        """
        if error_code in _UNKNOWN:
            return None
        return [hosted for hosted, proposal in sent.items() if self._settle(hosted, proposal)]

    def settle_proposals(
        self, sent: Mapping[HostedT, Proposal], answers: Iterable[PartitionCode]
    ) -> Answered[HostedT]:
        """Close the proposals that the controller has answered. Return the refused ones, and the partitions to check
        again.

        An accepted proposal stays pending until the metadata image brings its ISR: until then the maximal ISR counts.
        """
        codes = {Partition(each.topic, each.partition): each.error_code for each in answers}
        found: Answered[HostedT] = Answered([], [])
        for hosted, proposal in sent.items():
            code = codes.get(hosted.partition, 0)
            self._close(hosted, proposal)
            if not code:
                continue
            found.refused.append(Refused(hosted, proposal, code))
            if code not in NEWER_EPOCHS and self._settle(hosted, proposal):
                found.settled.append(hosted)
        return found

    def _close(self, hosted: HostedT, proposal: Proposal) -> None:
        """Send this proposal no more.

        Another one may be open by now, if the image was faster than the answer.
        """
        if self._open.get(hosted) is proposal:
            del self._open[hosted]

    def _settle(self, hosted: HostedT, proposal: Proposal) -> bool:
        self._close(hosted, proposal)
        if _pending(hosted) is not proposal:
            return False
        assert hosted.replicas is not None
        hosted.replicas.pending = None
        return True


def _pending(hosted: PartitionReplica) -> Proposal | None:
    return None if hosted.replicas is None else hosted.replicas.pending
