"""The metadata machine: the one place that decides about the cluster's metadata.

The modules beside this one (`nodes`, `leadership`, `replicas`, `topics`, `security`) give each request an `Outcome`,
which becomes a decision here. Only features and blocks of producer ids are decided here as well.

Two records are put in front of a decision's own when they are due, so that they cost no append of their own. One is the
claim of a controller process that writes for the first time. The other is a snapshot, when the journal has grown long.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, assert_never

from oncelog.errors import ErrorCode, KafkaError
from oncelog.features import FEATURE_LEVELS
from oncelog.ids import Millis, Offset
from oncelog.machine import Decision, Effect, Reply, Send, SetTimer
from oncelog_controller.core.dynamic_configs import altered_dynamic_configs
from oncelog_controller.core.elections import elected_leaders
from oncelog_controller.core.events import (
    WATCHERS,
    AllocateProducerIds,
    AlterApiTokens,
    AlterClientQuotas,
    AlterConfigs,
    AlterPartition,
    AlterUserScramCredentials,
    BalanceLeaders,
    BeginTerm,
    Committed,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    DrainNode,
    ElectLeaders,
    EndConsoleSession,
    MetadataEvent,
    MetadataRequest,
    NodeHeartbeat,
    Outcome,
    PartitionsAnswer,
    ProducerIdsAnswer,
    ReassignPartitions,
    RegisterNode,
    RemoveNode,
    SecurityAnswer,
    SessionsEnded,
    StatusAnswer,
    TopicResult,
    TopicsAnswer,
    UpdateFeatures,
)
from oncelog_controller.core.image import ClusterImage
from oncelog_controller.core.leadership import balanced_leaders, consequences
from oncelog_controller.core.nodes import (
    drained,
    heartbeat,
    registered,
    removed,
    requester_fault,
    sessions_ended,
)
from oncelog_controller.core.records import (
    ControllerClaimed,
    FeaturesChanged,
    MetadataRecord,
    ProducerIdsAllocated,
    Snapshot,
)
from oncelog_controller.core.replicas import altered_partitions, reassigned_partitions
from oncelog_controller.core.rules import MetadataRules
from oncelog_controller.core.security import changed_security
from oncelog_controller.core.topics import (
    TopicLimits,
    altered_configs,
    create_partitions,
    create_topics,
    delete_topics,
)

__all__ = ["MetadataMachine", "MetadataRules"]

PRODUCER_ID_BLOCK_SIZE: Final = 1000
PRODUCER_ID_MAX: Final = 2**63 - 1

LEADERS_MOVED_MAX: Final = 100
"""One step of the balance moves at most this many leaderships, for each move costs its clients a look-up."""


_SHOWN_BY_AN_IMAGE: Final = (StatusAnswer, PartitionsAnswer, TopicsAnswer, SecurityAnswer)
"""The answers whose `metadata_offset` is filled in. A metadata image that has this offset shows the change."""


class MetadataMachine:
    """The state machine that decides every change of the cluster's metadata. A driver feeds it events and writes its
    records.

    Its answers are dataclasses of `core.events`.
    """

    def __init__(self, rules: MetadataRules) -> None:
        self.image = ClusterImage()
        self._rules = rules
        self._limits = TopicLimits(rules.default_partitions, rules.partitions_max)

    def apply(self, offset: Offset, record: MetadataRecord) -> None:
        self.image.apply(offset, record)

    def resume(self, now: Millis) -> tuple[Effect, ...]:
        """Return the timer that balances leaders. Nothing else is left to do after a replay.

        Every decision is complete in its records, and watchers begin with a snapshot.
        """
        return (self._balance_timer(),)

    def decide(self, event: MetadataEvent, now: Millis) -> Decision[MetadataRecord]:
        match event:
            case SessionsEnded():
                return self._unasked(sessions_ended(self.image, event))
            case BeginTerm():
                return self._begin_term()
            case BalanceLeaders():
                return self._balance()
            case _:
                return self._answered(event.request_id, self._judged(event))

    def _judged(self, event: MetadataRequest) -> Outcome:
        match event:
            case RegisterNode():
                return registered(self.image, event, self._rules)
            case NodeHeartbeat():
                return heartbeat(self.image, event, self._rules)
            case DrainNode():
                return drained(self.image, event)
            case RemoveNode():
                return removed(self.image, event)
            case AlterPartition() | ReassignPartitions() | ElectLeaders():
                return self._change_replicas(event)
            case CreateTopics() | DeleteTopics() | CreatePartitions():
                return self._change_topics(event)
            case AlterConfigs():
                return self._alter_configs(event)
            case UpdateFeatures():
                return self._update_features(event)
            case (
                CreateAcls()
                | DeleteAcls()
                | AlterUserScramCredentials()
                | AlterClientQuotas()
                | AlterApiTokens()
                | EndConsoleSession()
            ):
                return changed_security(self.image.security, event)
            case AllocateProducerIds():
                return self._allocate(event)
            case _:
                assert_never(event)

    # ------------------------------------------------------------------------------- nodes, leaders, replicas

    def _begin_term(self) -> Decision[MetadataRecord]:
        if not self.image.cluster_id:
            return Decision(label="term_without_cluster")
        return self._unasked(
            Outcome(None, "term_begun", tuple(consequences(self.image))), begin=True
        )

    def _balance(self) -> Decision[MetadataRecord]:
        records = balanced_leaders(self.image, LEADERS_MOVED_MAX)
        label = "leaders_balanced" if records else "leaders_in_balance"
        decision = self._unasked(Outcome(None, label, tuple(records)))
        return replace(decision, effects=(*decision.effects, self._balance_timer()))

    def _balance_timer(self) -> SetTimer:
        interval_ms = self._rules.leader_balance_interval_ms
        return SetTimer(
            "balance leaders", Millis(interval_ms), BalanceLeaders(), Millis(interval_ms // 2)
        )

    def _change_replicas(
        self, event: AlterPartition | ReassignPartitions | ElectLeaders
    ) -> Outcome:
        if isinstance(event, AlterPartition):
            error_code, message = requester_fault(self.image, event)
            if error_code is not ErrorCode.NONE:
                return Outcome(PartitionsAnswer((), error_code, message), "isr_proposal_refused")
            results, changes = altered_partitions(self.image, event)
            label = "isr_changed" if changes else "isr_unchanged"
        elif isinstance(event, ElectLeaders):
            results, changes = elected_leaders(self.image, event)
            label = "leaders_elected" if changes else "election_unchanged"
        else:
            results, changes = reassigned_partitions(self.image, event)
            label = "reassigned" if changes else "reassignment_unchanged"
        return Outcome(PartitionsAnswer(tuple(results)), label, tuple(changes))

    def _allocate(self, event: AllocateProducerIds) -> Outcome:
        error_code, message = requester_fault(self.image, event)
        first = self.image.next_producer_id
        if error_code is ErrorCode.NONE and first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
            error_code, message = ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up"
        if error_code is not ErrorCode.NONE:
            return Outcome(ProducerIdsAnswer(error_code, message), "block_refused")
        record = ProducerIdsAllocated(
            first, PRODUCER_ID_BLOCK_SIZE, event.node_id, event.node_epoch
        )
        answer = ProducerIdsAnswer(first_producer_id=first, count=PRODUCER_ID_BLOCK_SIZE)
        return Outcome(answer, "block_allocated", (record,))

    # ------------------------------------------------------------------------------------ topics and features

    def _change_topics(self, event: CreateTopics | DeleteTopics | CreatePartitions) -> Outcome:
        results: list[TopicResult]
        records: list[MetadataRecord] = []
        validate_only = False
        match event:
            case CreateTopics():
                results, created = create_topics(self.image, event, self._limits)
                records += created
                label, validate_only = "topics_created", event.validate_only
            case DeleteTopics():
                results, deleted = delete_topics(self.image, event)
                records += deleted
                label = "topics_deleted"
            case CreatePartitions():
                results, added = create_partitions(self.image, event, self._limits)
                records += added
                label, validate_only = "partitions_added", event.validate_only
        answer = TopicsAnswer(tuple(results))
        if validate_only or not records:
            return Outcome(answer, "topics_validated" if validate_only else "topics_refused")
        if not isinstance(event, DeleteTopics):
            # A replica on a node that is fenced just now begins outside the ISR.
            names = [result.name for result in results if result.error_code is ErrorCode.NONE]
            records += consequences(self.image.planned(records), names)
        return Outcome(answer, label, tuple(records))

    def _alter_configs(self, event: AlterConfigs) -> Outcome:
        is_topic = event.kind == "topic"
        try:
            record: MetadataRecord | None
            if is_topic:
                record = altered_configs(self.image, event)
            else:
                record = altered_dynamic_configs(self.image, event)
        except KafkaError as error:
            return Outcome(StatusAnswer(error.error_code, error.message), "configs_refused")
        if record is None or event.validate_only:
            return Outcome(StatusAnswer(), "configs_unchanged")
        # A partition without a leader may get one when its topic allows an unclean election.
        follows = consequences(self.image.planned([record]), [event.name]) if is_topic else ()
        return Outcome(StatusAnswer(), "configs_changed", (record, *follows))

    def _update_features(self, event: UpdateFeatures) -> Outcome:
        reason = "" if self.image.cluster_id else "no node has registered yet; start one first"
        for name, level in event.levels.items():
            levels = FEATURE_LEVELS.get(name)
            if levels is None:
                reason = f"unknown feature {name!r}; known are {', '.join(FEATURE_LEVELS)}"
            elif level not in levels:
                reason = f"{name}={level} is not one of the levels {levels[0]} to {levels[-1]}"
        if reason:
            refusal = StatusAnswer(ErrorCode.FEATURE_UPDATE_FAILED, reason)
            return Outcome(refusal, "features_refused")
        wanted = {**self.image.feature_levels, **event.levels}
        if wanted == self.image.feature_levels or event.validate_only:
            return Outcome(StatusAnswer(), "features_unchanged")
        record = FeaturesChanged(self.image.features_epoch + 1, wanted)
        return Outcome(StatusAnswer(), "features_changed", (record,))

    # ---------------------------------------------------------------------------------------------- decisions

    def _with_preamble(self, records: Sequence[MetadataRecord]) -> list[MetadataRecord]:
        """Return `records`; a snapshot of the metadata and this controller's claim come before them if they are due."""
        image, rules = self.image, self._rules
        preamble: list[MetadataRecord] = []
        if image.metadata_offset - image.snapshot_offset >= rules.snapshot_interval_records:
            preamble.append(Snapshot(image.to_state()))
        if image.controller_incarnation_id != rules.incarnation_id:
            controller_epoch = max(image.controller_epoch + 1, rules.controller_epoch, 1)
            preamble.append(
                ControllerClaimed(rules.controller, controller_epoch, rules.incarnation_id)
            )
        return [*preamble, *records]

    def _answered(self, request_id: int, outcome: Outcome) -> Decision[MetadataRecord]:
        answer = outcome.answer
        records = self._with_preamble(outcome.records) if outcome.records else []
        if isinstance(answer, _SHOWN_BY_AN_IMAGE):
            answer = replace(answer, metadata_offset=self.image.metadata_offset + len(records))
        # Watchers are told before the caller is, so that an answer's offset is already on its way to every image.
        effects: tuple[Effect, ...] = (*self._watched(records), Reply(request_id, answer))
        return Decision(tuple(records), effects, outcome.label)

    def _unasked(self, outcome: Outcome, *, begin: bool = False) -> Decision[MetadataRecord]:
        """Return a decision without a reply, such as one on a timer's event.

        `begin`: this controller has just become active, and its claim is written even without other records.
        """
        records = self._with_preamble(outcome.records) if outcome.records or begin else []
        return Decision(tuple(records), self._watched(records), outcome.label)

    def _watched(self, records: Sequence[MetadataRecord]) -> tuple[Send, ...]:
        if not records:
            return ()
        offset = self.image.metadata_offset + len(records)
        return (Send(WATCHERS, Committed(offset, tuple(records))),)
