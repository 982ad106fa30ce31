"""Two-phase commit (KIP-939) with our own producer against a running log: prepared, kept by the next one, completed."""

import asyncio

import pytest
from tests.integration.client.writers import fresh, new_topic

import oncelog
from oncelog.client import (
    Admin,
    AuthorizationError,
    Completion,
    Consumer,
    FencedError,
    IllegalStateError,
    Partition,
    PreparedTransaction,
    Producer,
    UnsupportedError,
)

WAIT_S = 90


@pytest.fixture(scope="module")
def log():
    environment = {"ONCELOG_COORDINATOR_TWO_PHASE_COMMIT_ENABLED": "true"}
    with oncelog.running(environment=environment) as running:
        asyncio.run(_enable(running.bootstrap_servers))
        yield running


async def _enable(bootstrap, level=1):
    async with Admin(bootstrap) as admin:
        await admin.update_features({"two.phase.commit.version": level}, allows_data_loss=True)


@pytest.fixture
def bootstrap(log):
    return log.bootstrap_servers


def two_phase(bootstrap, name):
    return Producer(bootstrap, transactional_id=name, transaction_two_phase_commit_enable=True)


async def committed(bootstrap, topic):
    """What a read_committed consumer sees once everything is decided: a marker follows the answer to a commit."""
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([Partition(topic, 0)])
        lists = consumer.read_until_decided(timeout_s=WAIT_S)
        return [record.value async for records in lists for record in records]


async def prepare(producer, topic, value):
    producer.begin_transaction()
    producer.send(topic, value)
    return await producer.prepare_transaction()


async def test_a_block_prepares_and_then_commits(bootstrap):
    topic = new_topic(bootstrap)
    async with two_phase(bootstrap, fresh("pay")) as producer:
        assert await producer.complete_transaction(None) is Completion.NOTHING
        async with producer.transaction() as transaction:
            delivery = transaction.send(topic, b"one")
            prepared = await transaction.prepare()
            assert delivery.done()
            assert str(prepared) == f"{prepared.producer_id}:{prepared.producer_epoch}"
            assert producer.prepared == prepared
            with pytest.raises(IllegalStateError, match="nothing is added to what is prepared"):
                transaction.send(topic, b"two")
        assert producer.prepared is None
    assert await committed(bootstrap, topic) == [b"one"]


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("crashes", [1, 3])
async def test_the_next_producer_completes_what_was_left(bootstrap, is_stored, crashes):
    topic, name = new_topic(bootstrap), fresh("pay")
    async with two_phase(bootstrap, name) as first:
        prepared = await prepare(first, topic, b"one")
    for _ in range(crashes - 1):
        async with two_phase(bootstrap, name) as crashed:
            assert crashed.prepared == prepared
    stored = str(prepared) if is_stored else ""
    async with two_phase(bootstrap, name) as last:
        assert last.prepared == prepared
        done = await last.complete_transaction(stored)
        assert done is (Completion.COMMITTED if is_stored else Completion.ABORTED)
        async with last.transaction() as transaction:
            transaction.send(topic, b"next")
    assert await committed(bootstrap, topic) == [b"one"] * is_stored + [b"next"]


async def test_an_unprepared_one_is_kept_and_aborted(bootstrap):
    """The former producer died before it prepared: the other system holds another transaction, or none."""
    topic, name = new_topic(bootstrap), fresh("pay")
    async with two_phase(bootstrap, name) as first:
        earlier = await prepare(first, topic, b"one")
        assert await first.complete_transaction(earlier) is Completion.COMMITTED
        first.begin_transaction()
        await first.send(topic, b"half")
        await first.close(0)
    async with two_phase(bootstrap, name) as second:
        assert second.prepared not in (None, earlier)
        assert await second.complete_transaction(earlier) is Completion.ABORTED
    assert await committed(bootstrap, topic) == [b"one"]


async def test_a_former_producer_cannot_end_what_the_next_one_keeps(bootstrap):
    topic, name = new_topic(bootstrap), fresh("pay")
    async with two_phase(bootstrap, name) as former:
        prepared = await prepare(former, topic, b"one")
        async with two_phase(bootstrap, name) as next_one:
            with pytest.raises(FencedError):
                await former.complete_transaction(prepared)
            assert await next_one.complete_transaction(prepared) is Completion.COMMITTED
    assert await committed(bootstrap, topic) == [b"one"]


async def test_an_exception_after_the_prepare_leaves_it_to_the_next(bootstrap):
    topic, name = new_topic(bootstrap), fresh("pay")
    async with two_phase(bootstrap, name) as producer:
        block = producer.transaction()
        transaction = await block.__aenter__()
        transaction.send(topic, b"one")
        prepared = await transaction.prepare()
        assert not await block.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)
    async with two_phase(bootstrap, name) as producer:
        assert await producer.complete_transaction(prepared) is Completion.COMMITTED
    assert await committed(bootstrap, topic) == [b"one"]


async def test_an_exception_before_the_prepare_aborts(bootstrap):
    topic, name = new_topic(bootstrap), fresh("pay")
    async with two_phase(bootstrap, name) as producer:
        block = producer.transaction()
        transaction = await block.__aenter__()
        await transaction.send(topic, b"one")
        assert not await block.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)
    async with two_phase(bootstrap, name) as producer:
        assert producer.prepared is None
        assert await producer.complete_transaction("") is Completion.NOTHING


async def test_a_transaction_without_records_has_no_identity(bootstrap):
    """The next transaction has this epoch as well: a stored text would commit it."""
    topic, name = new_topic(bootstrap), fresh("pay")
    async with two_phase(bootstrap, name) as producer:
        producer.begin_transaction()
        empty = await producer.prepare_transaction()
        assert (str(empty), empty.has_transaction) == ("", False)
        assert await producer.complete_transaction(empty) is Completion.COMMITTED
        producer.begin_transaction()
        await producer.send(topic, b"half")
        await producer.close(0)
    async with two_phase(bootstrap, name) as producer:
        assert await producer.complete_transaction(str(empty)) is Completion.ABORTED


async def test_offsets_are_prepared_with_the_records(bootstrap):
    topic, name, group = new_topic(bootstrap), fresh("pay"), fresh("group")
    async with two_phase(bootstrap, name) as producer:
        producer.begin_transaction()
        producer.send(topic, b"one")
        await producer.send_offsets_to_transaction({Partition(topic, 0): 17}, group)
        prepared = await producer.prepare_transaction()
    async with two_phase(bootstrap, name) as producer, Admin(bootstrap) as admin:
        await producer.complete_transaction(prepared)
        offsets = await admin.list_group_offsets(group)
    assert offsets[Partition(topic, 0)].offset == 17


async def test_complete_comes_after_prepare(bootstrap):
    async with two_phase(bootstrap, fresh("pay")) as producer:
        producer.begin_transaction()
        with pytest.raises(IllegalStateError, match=r"prepare\(\) comes first"):
            await producer.complete_transaction(None)


async def test_prepare_needs_the_setting(bootstrap):
    async with Producer(bootstrap, transactional_id=fresh("pay")) as producer:
        producer.begin_transaction()
        with pytest.raises(
            IllegalStateError, match=r"transaction\.two\.phase\.commit\.enable=true"
        ):
            await producer.prepare_transaction()


async def test_a_cluster_that_does_not_allow_it_says_how(oncelog_broker):
    bootstrap = oncelog_broker.bootstrap_servers
    with pytest.raises(AuthorizationError, match=r"transaction\.two\.phase\.commit\.enable=true"):
        await two_phase(bootstrap, fresh("pay")).start()


async def test_a_cluster_without_the_feature_says_how(bootstrap):
    await _enable(bootstrap, 0)
    try:
        with pytest.raises(UnsupportedError, match=r"two\.phase\.commit\.version 1"):
            await two_phase(bootstrap, fresh("pay")).start()
    finally:
        await _enable(bootstrap)


def test_the_stored_text_is_read_again():
    prepared = PreparedTransaction(42, 7)
    assert PreparedTransaction.parse(str(prepared)) == prepared
    assert PreparedTransaction.parse(None) == PreparedTransaction.parse("") == PreparedTransaction()


@pytest.mark.parametrize(
    "text", ["42", "42:", ":7", "-1:-1", "42:7:1", "42:32768", "9" * 20 + ":1"]
)
def test_another_text_is_refused(text):
    with pytest.raises(ValueError, match="is no prepared transaction"):
        PreparedTransaction.parse(text)
