"""Each coordinator epoch of a shard (a partition of `__transaction_state` or `__consumer_offsets`) has one owner.

An older owner that becomes active after a newer one is no violation by itself: the answer that made it owner may
have been under way. Its first append is refused. What it may not do is write, which `cluster_coordinator_epochs`
judges. An owner is a process: one that starts again gets another epoch, so that requests of its predecessor are
fenced.
"""

from oncelog_robustness.checkers.cluster_case import Case
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations, ShardOwned


class Owners:
    """The first coordinator that was seen active under each coordinator epoch, for each partition of
    `__transaction_state` and `__consumer_offsets`. The simulator asks `rival` at every step, the checker at the
    end."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, int, int], ShardOwned] = {}

    def rival(self, owned: ShardOwned) -> str | None:
        """Return a sentence if another node was seen active for this coordinator partition under this coordinator
        epoch, or another process of the same node; else None."""
        shard = (owned.topic, owned.shard, owned.coordinator_epoch)
        first = self._owners.setdefault(shard, owned)
        if (first.node_id, first.node_incarnation) == (owned.node_id, owned.node_incarnation):
            return None
        is_same_node = first.node_id == owned.node_id
        again = f" in its process {owned.node_incarnation}" if is_same_node else ""
        return (
            f"{owned.topic}-{owned.shard} under coordinator epoch {owned.coordinator_epoch}: node"
            f" {first.node_id} was active at {first.at_ms} ms, node {owned.node_id}{again} at {owned.at_ms} ms"
        )


def check(_history: History, observations: Observations) -> Verdict:
    case = Case("two-owners-of-a-shard")
    owners = Owners()
    for owned in observations.shards:
        case.judge()
        sentence = owners.rival(owned)
        if sentence is not None:
            case.broken(sentence)
    return case.verdict()
