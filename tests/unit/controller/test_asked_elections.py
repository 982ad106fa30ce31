"""Elections that an operator asks for (KIP-460): preferred and unclean, partition by partition."""

from tests.unit.controller.metadata_cases import Bench

from oncelog.errors import ErrorCode
from oncelog_controller.core.events import ElectLeaders


def elect(bench, *partitions, unclean=False):
    answer = bench.ask(lambda rid: ElectLeaders(rid, partitions, unclean))
    return [one.error_code for one in answer.results]


def bench_of(*replicas):
    """Nodes 1 to 3, and the topic `t` with one partition on these."""
    bench = Bench()
    for node_id in (1, 2, 3):
        bench.join(node_id, "storage")
    bench.create("t", replicas)
    return bench


def test_the_preferred_replica_leads_again_once_it_is_in_sync():
    bench = bench_of(1, 2)
    assert elect(bench, ("t", 0), ("t", 9), ("nowhere", 0)) == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    bench.fence(1)
    assert bench.partition("t").leader == 2
    assert elect(bench, ("t", 0)) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    bench.beat(1)
    assert elect(bench, ("t", 0)) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE], "not in sync yet"
    epoch = bench.partition("t").leader_epoch
    bench.propose("t", (2, 1))
    assert elect(bench, ("t", 0)) == [ErrorCode.NONE]
    assert (bench.partition("t").leader, bench.partition("t").leader_epoch) == (1, epoch + 1)


def test_an_unclean_election_takes_any_replica_that_runs():
    bench = bench_of(1, 2)
    assert elect(bench, ("t", 0), unclean=True) == [ErrorCode.ELECTION_NOT_NEEDED]
    bench.fence(2)
    bench.fence(1)
    assert bench.partition("t").leader == -1
    assert elect(bench, ("t", 0), unclean=True) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    bench.beat(2)
    assert bench.partition("t").leader == -1, "node 1 alone is in sync"
    assert elect(bench, ("t", 0), unclean=True) == [ErrorCode.NONE]
    assert (bench.partition("t").leader, bench.partition("t").isr) == (2, (2,))
