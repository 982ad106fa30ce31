"""What became of the record at one offset, as its leader tells it."""

from tests.integration.storage.storage_node import batch, txn_batch

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode

NAME = {value.number: value.name for value in pb.RecordFate.DESCRIPTOR.values}


async def describe(node, name, offset):
    request = pb.DescribeRecordRequest(
        partition=types_pb2.TopicPartition(topic=name), offset=offset
    )
    return await node.storage.DescribeRecord(request, None)


async def fates(node, name, end):
    return [NAME[(await describe(node, name, offset)).fate] for offset in range(end)]


async def test_each_record_has_the_fate_of_its_own_transaction(node):
    await node.produce("orders", batch())
    # The same producer aborts, commits, and then leaves a transaction open.
    await node.produce("orders", txn_batch(9, 0, 2), transactional_id="pay")
    await node.mark("orders", (9, 0, False))
    await node.produce("orders", txn_batch(9, 2), transactional_id="pay")
    await node.mark("orders", (9, 0, True))
    await node.produce("orders", txn_batch(9, 3), transactional_id="pay")
    # Behind the last stable offset, and decided all the same.
    await node.produce("orders", txn_batch(7, 0), transactional_id="ship")
    await node.mark("orders", (7, 0, True))
    await node.produce("orders", txn_batch(8, 0), transactional_id="bill")
    await node.mark("orders", (8, 0, False))
    assert await fates(node, "orders", 12) == [
        "NOT_TRANSACTIONAL",
        "IN_ABORTED",
        "IN_ABORTED",
        "ABORT_MARKER",
        "IN_COMMITTED",
        "COMMIT_MARKER",
        "IN_OPEN",
        "IN_COMMITTED",
        "COMMIT_MARKER",
        "IN_ABORTED",
        "ABORT_MARKER",
        "NOT_WRITTEN",
    ]
    aborted = await describe(node, "orders", 2)
    assert (aborted.txn_first_offset, aborted.txn_last_offset) == (1, 3)
    opened = await describe(node, "orders", 6)
    assert (opened.producer_id, opened.open_transaction.current_txn_start_offset) == (9, 6)
    assert (opened.last_stable_offset, opened.high_watermark) == (6, 11)
    plain = await describe(node, "orders", 0)
    assert (plain.producer_id, plain.txn_first_offset) == (-1, -1)
    request = pb.DeleteRecordsRequest()
    request.partitions.add(topic="orders", partition=0, before_offset=2)
    await node.storage.DeleteRecords(request, None)
    below, left = [await describe(node, "orders", offset) for offset in (1, 2)]
    assert (NAME[below.fate], below.log_start_offset) == ("BELOW_LOG_START", 2)
    assert NAME[left.fate] == "IN_ABORTED"
    unknown = await describe(node, "nowhere", 0)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
