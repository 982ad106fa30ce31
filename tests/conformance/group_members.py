"""Members of consumer groups behind one face: each real client in a thread that polls, or in a process to be killed.

`python -m tests.conformance.group_members confluent-kafka HOST:PORT GROUP TOPIC` is such a process.
"""

import asyncio
import contextlib
import queue
import subprocess
import sys
import threading
import time
from concurrent.futures import Future

import aiokafka
import aiokafka.coordinator.assignors.roundrobin
import confluent_kafka
import kafka
from tests.conformance.logins import log_in
from tests.targets import TargetKind, is_login_asked, target_kind

# Somebody else's server has Kafka's least session timeout, and was not told of a shorter one.
SHORTEST_SESSION_MS = 6_000 if target_kind() is TargetKind.ADDRESS else 2_000
SESSION = {"session_timeout_ms": SHORTEST_SESSION_MS, "heartbeat_interval_ms": 300}
LONG_SESSION = {"session_timeout_ms": 30_000}
"""For members that outlive a restart of the server."""

DEADLINE_S = 60.0
POLL_S = 0.05
SERVER_ENVIRONMENT = {
    "ONCELOG_COORDINATOR_GROUP_SESSION_TIMEOUT_MIN_MS": "1000",
    "ONCELOG_COORDINATOR_GROUP_CONSUMER_SESSION_TIMEOUT_MS": "4000",
    "ONCELOG_COORDINATOR_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS": "200",
}
"""Sessions may end within seconds."""
NEW_PROTOCOL = "confluent-kafka (KIP-848)"
COUNT = 40


def eventually(condition, what="it did not happen"):
    """Waits until it holds, and returns what it returned; fails the test when it never does."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.02)
    return found


def fill(server, topic, partitions, first=0, count=COUNT):
    """Write so many numbers, spread over the partitions."""
    producer = confluent_kafka.Producer({"bootstrap.servers": server.bootstrap, "log_level": 0})
    for number in range(first, first + count):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(30) == 0


def share(partitions, *members):
    """Whether the members have every partition exactly once between them, each at least one."""
    held = [one.assigned for one in members]
    every = frozenset(range(partitions))
    return all(held) and sum(map(len, held)) == partitions and frozenset().union(*held) == every


def seen(*members):
    return sorted(int(value) for one in members for value in one.values)


class ConfluentConsumer:
    def __init__(self, bootstrap, group, topic, **options):
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 300,
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in self._given(options).items()},
            }
        )
        self._consumer.subscribe([topic])

    def _given(self, options):
        return {**SESSION, **options}

    def poll(self):
        messages = self._consumer.consume(100, timeout=POLL_S)
        # Anything that is no record is news of the network, and goes away by itself or not at all.
        return [(one.partition(), one.offset(), one.value()) for one in messages if not one.error()]

    def assignment(self):
        return frozenset(one.partition for one in self._consumer.assignment())

    def commit(self):
        """Who has read nothing since it got its partitions has nothing to commit. The other clients say nothing then.

        So it is behind a restart of Kafka: its coordinator is loaded, and counts sessions, before its listener is open.
        """
        try:
            self._consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() != confluent_kafka.KafkaError._NO_OFFSET:
                raise

    def close(self):
        self._consumer.close()

    def transaction_arguments(self):
        """What a producer's send_offsets_to_transaction is given: positions, and who we are in the group."""
        positions = self._consumer.position(self._consumer.assignment())
        return [
            one for one in positions if one.offset >= 0
        ], self._consumer.consumer_group_metadata()

    def rewind(self):
        """To what is committed: after an abort everything since is read again."""
        for one in self._consumer.committed(self._consumer.assignment(), timeout=20):
            if one.offset < 0:
                one.offset = confluent_kafka.OFFSET_BEGINNING
            self._consumer.seek(one)


class NewProtocolConsumer(ConfluentConsumer):
    """KIP-848: the coordinator decides how long a session is and who gets what."""

    def _given(self, options):
        return {"group_protocol": "consumer", **options}


class KafkaPythonConsumer:
    def __init__(self, bootstrap, group, topic, **options):
        self._consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            reconnect_backoff_max_ms=300,
            metadata_max_age_ms=2_000,
            **{**SESSION, **options},
        )

    def poll(self):
        try:
            found = self._consumer.poll(timeout_ms=int(POLL_S * 1000))
        except kafka.errors.KafkaConnectionError:
            # It says so while no broker is there, and goes on with the next poll.
            return []
        return [(one.partition, one.offset, one.value) for some in found.values() for one in some]

    def assignment(self):
        return frozenset(one.partition for one in self._consumer.assignment())

    def commit(self):
        self._consumer.commit()

    def close(self):
        self._consumer.close()

    def transaction_arguments(self):
        positions = {
            one: kafka.structs.OffsetAndMetadata(self._consumer.position(one), "", -1)
            for one in self._consumer.assignment()
        }
        return positions, self._consumer.group_metadata()

    def rewind(self):
        for one in self._consumer.assignment():
            self._consumer.seek(one, self._consumer.committed(one) or 0)


class AiokafkaConsumer:
    def __init__(self, bootstrap, group, topic, **options):
        self._runner = asyncio.Runner()
        self._group = group

        async def start():
            consumer = aiokafka.AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
                **{**SESSION, **options},
            )
            await consumer.start()
            return consumer

        self._consumer = self._runner.run(start())

    def poll(self):
        found = self._runner.run(self._consumer.getmany(timeout_ms=int(POLL_S * 1000)))
        return [(one.partition, one.offset, one.value) for some in found.values() for one in some]

    def assignment(self):
        return frozenset(one.partition for one in self._consumer.assignment())

    def commit(self):
        self._runner.run(self._consumer.commit())

    def close(self):
        # The cancellation of its own fetching escapes when it was waiting for a server that was away.
        with contextlib.suppress(asyncio.CancelledError):
            self._runner.run(self._consumer.stop())
        self._runner.close()

    def transaction_arguments(self):
        async def positions():
            return {one: await self._consumer.position(one) for one in self._consumer.assignment()}

        return self._runner.run(positions()), self._group

    def rewind(self):
        async def seek():
            for one in self._consumer.assignment():
                self._consumer.seek(one, await self._consumer.committed(one) or 0)

        self._runner.run(seek())


CONSUMERS = {
    "confluent-kafka": ConfluentConsumer,
    NEW_PROTOCOL: NewProtocolConsumer,
    "kafka-python": KafkaPythonConsumer,
    "aiokafka": AiokafkaConsumer,
}


class Member:
    """A consumer in a thread of its own, which alone touches it. Polls until it is closed."""

    def __init__(self, client, bootstrap, group, topic, **options):
        self.records = []
        self.assignments = [frozenset()]
        """Each assignment there was, the newest last."""
        self._commands = queue.SimpleQueue()
        self._is_closing = False
        self._is_polling = True
        arguments = (client, bootstrap, group, topic, options)
        self._thread = threading.Thread(target=self._run, args=arguments, daemon=True)
        self._thread.start()

    @property
    def assigned(self):
        return self.assignments[-1]

    @property
    def values(self):
        return [value for _, _, value in self.records]

    def call(self, name, *arguments):
        """The consumer's method, called in its thread."""
        answer = Future()
        self._commands.put((answer, name, arguments))
        return answer.result(DEADLINE_S)

    def commit(self):
        self.call("commit")

    def pause(self):
        """Stop reading: from here on only `poll` reads."""
        self._is_polling = False
        self.call("assignment")

    def close(self):
        self._is_closing = True
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "the consumer does not close"

    def _run(self, client, bootstrap, group, topic, options):
        consumer = CONSUMERS[client](bootstrap, group, topic, **options)
        try:
            while not self._is_closing:
                self._obey(consumer)
                if self._is_polling:
                    self.records += consumer.poll()
                else:
                    time.sleep(0.005)
                found = consumer.assignment()
                if found != self.assigned:
                    self.assignments.append(found)
        finally:
            consumer.close()

    def _obey(self, consumer):
        with contextlib.suppress(queue.Empty):
            answer, name, arguments = self._commands.get_nowait()
            try:
                answer.set_result(getattr(consumer, name)(*arguments))
            except Exception as error:  # It is raised where it was asked for.
                answer.set_exception(error)


@contextlib.contextmanager
def in_a_process(client, server, group, topic):
    """A member to be killed."""
    command = [sys.executable, "-m", "tests.conformance.group_members"]
    with subprocess.Popen([*command, client, server.bootstrap, group, topic]) as process:
        try:
            yield process
        finally:
            process.kill()


def _main(client, bootstrap, group, topic):
    member = Member(client, bootstrap, group, topic)
    member._thread.join()


if __name__ == "__main__":
    if is_login_asked():
        log_in()
    _main(*sys.argv[1:])
