"""Hypothesis drives a sink as a careless world would, against a model that only remembers what was made durable.

Each query has two drivers with a shared checkpoint, and tasks that are retried and outlive their drivers. Answers get
lost, and deadlines pass. The coordinator dies at any record boundary and comes back from a full or a compacted log.
Markers are delivered late, twice or not at all. A second query may adopt the sink. `history` keeps every DECIDE and
BRANCH that ever became durable; the invariants are read off it, not off the machine.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.worlds.sink.sink_shell import (
    TIMEOUT_MS,
    SinkShell,
    compacted,
    message,
    replayed,
    skip,
    snapshot,
)

from oncelog.sink_answer import SinkAnswer
from oncelog_coordinator.core.markers import DeliveryOutcome, MarkersDelivered
from oncelog_coordinator.core.sink_limits import SinkLimits
from oncelog_coordinator.core.sink_records import (
    Branch,
    Decide,
    Outcome,
    SinkHeader,
    decode_sink_record,
)

TASKS = (0, 1)
QUERIES = ("query-1", "query-2")
LIMITS = SinkLimits(attempts_max=4, batches_max=5, retired_queries_max=2)


@dataclass
class Driver:
    query: str
    run: int
    number: int = 0
    """Of the nonce; 0: no attempt."""
    batch_id: int = 0
    messages: dict = field(default_factory=dict)


class Sinks(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.shell = SinkShell(LIMITS)
        self.history = []
        self.seen = 0
        self.numbers = 0
        self.task_attempts = 0
        self.checkpoint = dict.fromkeys(QUERIES, 0)
        self.drivers = [Driver(QUERIES[0], 1), Driver(QUERIES[0], 2)]
        self.runs = 2
        self.branches = {}
        self.told_committed = set()
        self.ended = {}
        self.asked = []
        self.generation_of = {}

    # ------------------------------------------------------------------------------------------- the record

    def note(self):
        """Take what became durable into the history, before compaction can hide it."""
        for pair in self.shell.log[self.seen :]:
            record = decode_sink_record(*pair)
            if isinstance(record, SinkHeader):
                known = self.generation_of.get(record.query_generation) or record.query_id
                assert known == record.query_id, "a generation is one query's"
                self.generation_of[record.query_generation] = record.query_id
                assert len(set(self.generation_of.values())) == len(self.generation_of), (
                    "a retired query took the sink back"
                )
            if isinstance(record, Branch | Decide):
                self.history.append(record)
        self.seen = len(self.shell.log)
        for wanted in self.shell.outbox.values():
            self.asked.append(wanted)
            for marker in wanted.markers:
                outcome = self.ended.setdefault(marker.producer_id, marker.commit)
                assert outcome is marker.commit, "a branch got two outcomes"
                assert marker.producer_epoch == 1
                assert marker.transaction_version == 2

    def commits(self):
        return [d for d in self.history if isinstance(d, Decide) and d.outcome is Outcome.COMMIT]

    def is_committed(self, query, batch_id):
        return any(
            self.generation_of[d.query_generation] == query and d.batch_id == batch_id
            for d in self.commits()
        )

    # ---------------------------------------------------------------------------------------------- drivers

    @rule(index=st.sampled_from([0, 1]))
    def open(self, index):
        driver = self.drivers[index]
        self.numbers += 1
        answer = self.shell.open(self.numbers)
        if answer.error_code == 0:
            assert answer.answer is SinkAnswer.OK
            driver.number = self.numbers
            driver.batch_id = self.checkpoint[driver.query]
            driver.messages = {}
        self.note()

    @rule(index=st.sampled_from([0, 1]), tasks=st.permutations(TASKS), commits=st.booleans())
    def run_batch(self, index, tasks, commits):
        """What mostly happens, so that the rare things happen at interesting moments."""
        if not self.drivers[index].number:
            self.open(index)
        for task in tasks:
            self.run_task(index, task)
        if commits:
            self.commit(index, True)

    @rule(index=st.sampled_from([0, 1]), task=st.sampled_from(TASKS), seals=st.booleans())
    def run_task(self, index, task, seals=True):
        producer_id = self.join(index, task, retry=True, adopt=False)
        if producer_id is not None:
            self.add_to(producer_id, f"orders-{task}")
            if seals:
                self.seal_branch(producer_id, True)

    @rule(index=st.sampled_from([0, 1]), query=st.sampled_from(QUERIES))
    def adopt(self, index, query):
        """A new checkpoint, and a user who allows it to take the sink over."""
        self.driver_dies(index, query)
        self.open(index)
        self.join(index, 0, retry=True, adopt=True)

    @rule(
        index=st.sampled_from([0, 1]),
        task=st.sampled_from(TASKS),
        retry=st.booleans(),
        adopt=st.booleans(),
    )
    def join_only(self, index, task, retry, adopt):
        self.join(index, task, retry, adopt)

    def join(self, index, task, retry, adopt):
        driver = self.drivers[index]
        if not driver.number:
            return None
        self.task_attempts += retry
        answer = self.shell.join(
            driver.number,
            driver.batch_id,
            task,
            self.task_attempts,
            query_id=driver.query,
            run_id=f"run-{driver.run}",
            adopt_query=adopt,
        )
        self.note()
        if answer.answer is SinkAnswer.SKIP:
            assert self.is_committed(driver.query, driver.batch_id), "skipped and not committed"
            driver.messages[task] = skip(driver.number, driver.query)
        if answer.producer_id < 0:
            return None
        found = (driver.number, task, self.task_attempts)
        known = self.branches.setdefault(answer.producer_id, (*found, index))
        assert known[:3] == found, "a producer id is shared"
        return answer.producer_id

    @precondition(lambda self: self.branches)
    @rule(data=st.data(), name=st.sampled_from(["orders-0", "orders-1", "audit-0"]))
    def add(self, data, name):
        """Of any branch there ever was: zombies produce, too."""
        self.add_to(data.draw(st.sampled_from(sorted(self.branches))), name)

    def add_to(self, producer_id, name):
        answer = self.shell.add(producer_id, name)
        if producer_id in self.ended:
            assert answer.error_code != 0, "a closed branch may write"
        self.note()

    @precondition(lambda self: self.branches)
    @rule(data=st.data(), answer_arrives=st.booleans())
    def seal(self, data, answer_arrives):
        self.seal_branch(data.draw(st.sampled_from(sorted(self.branches))), answer_arrives)

    def seal_branch(self, producer_id, answer_arrives):
        number, task, _, index = self.branches[producer_id]
        answer = self.shell.seal(number, producer_id)
        self.note()
        driver = self.drivers[index]
        if answer.answer is SinkAnswer.OK and answer_arrives and driver.number == number:
            driver.messages[task] = message(number, producer_id, task, driver.query)

    @rule(index=st.sampled_from([0, 1]), answer_arrives=st.booleans())
    def commit(self, index, answer_arrives):
        driver = self.drivers[index]
        if set(driver.messages) == set(TASKS):
            self.commit_with(driver, driver.batch_id, driver.messages.values(), answer_arrives)

    @precondition(lambda self: self.branches)
    @rule(data=st.data(), index=st.sampled_from([0, 1]))
    def commit_anything(self, data, index):
        """Messages that no honest driver would send together: not sealed, of other attempts, of one task twice."""
        driver = self.drivers[index]
        known = [
            message(number, producer_id, task, driver.query)
            for producer_id, (number, task, _, _) in list(self.branches.items())[-4:]
        ]
        known += driver.messages.values()
        picked = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))
        self.commit_with(None, driver.batch_id, picked, True)

    def commit_with(self, driver, batch_id, messages, answer_arrives):
        messages = tuple(messages)
        answer = self.shell.commit(batch_id, *messages)
        self.note()
        if answer.answer in (SinkAnswer.OK, SinkAnswer.ALREADY):
            query = messages[0].query_id
            if driver is not None:
                assert self.is_committed(query, batch_id)
            if driver is not None and answer_arrives:
                self.checkpoint[query] = max(self.checkpoint[query], batch_id + 1)
                driver.number, driver.messages = 0, {}

    @rule(index=st.sampled_from([0, 1]))
    def abort(self, index):
        driver = self.drivers[index]
        if driver.number:
            decided = {d.nonce for d in self.history if isinstance(d, Decide)}
            answer = self.shell.abort(driver.number)
            assert answer.aborted <= (driver.number.to_bytes(16, "big") not in decided)
            self.note()

    @rule(index=st.sampled_from([0, 1]), query=st.sampled_from(QUERIES))
    def driver_dies(self, index, query):
        self.runs += 1
        self.drivers[index] = Driver(query, self.runs)

    # ------------------------------------------------------------------------------------------ the coordinator

    @rule(data=st.data(), kept=st.integers(0, 6))
    def coordinator_dies_inside_a_step(self, data, kept):
        events = [self.shell.commit_event(d.batch_id, *d.messages.values()) for d in self.drivers]
        events += [
            self.shell.join_event(d.number, d.batch_id, 0, query_id=d.query, adopt_query=True)
            for d in self.drivers
            if d.number
        ]
        events += [
            MarkersDelivered(wanted.decision_key, DeliveryOutcome.DELIVERED)
            for wanted in self.shell.outbox.values()
        ]
        events += [event for _, event in self.shell.timers.values()]
        event = data.draw(st.sampled_from(events))
        honest = [d for d in self.drivers if set(d.messages) == set(TASKS)]
        if hasattr(event, "messages") and event.messages and not honest:
            return
        self.shell.now += data.draw(st.sampled_from([0, TIMEOUT_MS]))
        self.shell.submit(event, records_kept=kept)
        self.note()
        self.comes_back(data)

    @rule(data=st.data())
    def coordinator_restarts(self, data):
        self.comes_back(data)

    def comes_back(self, data):
        full = self.shell.log
        cut = data.draw(st.integers(0, len(full)))
        left = compacted(full[:cut], data.draw(st.booleans())) + full[cut:]
        assert snapshot(replayed(left, LIMITS)) == snapshot(replayed(full, LIMITS))
        self.shell.restart(left)
        self.seen = len(left)
        self.note()

    @rule(outcome=st.sampled_from(DeliveryOutcome))
    def markers_are_delivered(self, outcome):
        self.shell.deliver(outcome)
        self.note()

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def delivery_is_told_twice(self, data):
        wanted = data.draw(st.sampled_from(self.asked))
        self.shell.outbox.pop(wanted.decision_key, None)
        self.shell.submit(MarkersDelivered(wanted.decision_key, DeliveryOutcome.DELIVERED))
        self.note()

    @rule(after_ms=st.sampled_from([1, 60_000, TIMEOUT_MS - 1, TIMEOUT_MS]))
    def time_passes(self, after_ms):
        self.shell.advance(after_ms)
        self.note()

    # --------------------------------------------------------------------------------------------- invariants

    @invariant()
    def one_decision_of_a_nonce_and_of_a_batch(self):
        decides = [record for record in self.history if isinstance(record, Decide)]
        assert len({d.nonce for d in decides}) == len(decides)
        batches = [(d.query_generation, d.batch_id) for d in self.commits()]
        assert len(set(batches)) == len(batches)
        assert batches == sorted(batches), "batch ids and queries only go forward"

    @invariant()
    def winners_are_sealed_branches_of_one_attempt(self):
        newest = {}
        for record in self.history:
            if isinstance(record, Branch):
                newest[record.producer_id] = record
            elif record.outcome is Outcome.COMMIT:
                winners = [newest[producer_id] for producer_id in record.winners]
                assert {branch.nonce for branch in winners} == {record.nonce}
                assert {branch.batch_id for branch in winners} == {record.batch_id}
                assert all(branch.is_sealed for branch in winners)
                tasks = [branch.task_partition for branch in winners]
                assert len(set(tasks)) == len(tasks)

    @invariant()
    def at_most_one_attempt_is_open(self):
        sink = self.shell.describe()
        assert sum(attempt.state == "Open" for attempt in sink.attempts) <= 1
        assert len(sink.attempts) <= LIMITS.attempts_max
        assert len(sink.decisions) <= LIMITS.batches_max + LIMITS.attempts_max

    @invariant()
    def markers_say_what_the_decision_says(self):
        winners = {producer_id for d in self.commits() for producer_id in d.winners}
        for producer_id, commit in self.ended.items():
            assert commit is (producer_id in winners)

    def teardown(self):
        """Heal: the coordinator comes back, drivers are gone; every branch that may have written must end."""
        if not hasattr(self, "shell"):
            return
        self.shell.restart()
        for _ in range(3):
            self.note()
            self.shell.deliver()
            self.shell.advance(TIMEOUT_MS)
        self.note()
        self.shell.deliver()
        assert self.shell.machine.transaction_views() == ()
        assert self.shell.describe().attempts == ()
        newest = {b.producer_id: b for b in self.history if isinstance(b, Branch)}
        for producer_id, branch in newest.items():
            assert not branch.partitions or producer_id in self.ended, "a branch hangs"


Sinks.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestSinks = Sinks.TestCase
