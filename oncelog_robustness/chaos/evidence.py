"""The evidence that a cluster's processes leave behind: replicas' logs, shards' records, and the metadata journal.

    evidence = Evidence.of(cluster)
    evidence.wait_settled(60)              while it runs: nothing open, every copy complete
    blocks = evidence.blocks()             while Postgres runs
    ...                                    the cluster is stopped
    observations = evidence.read(at_ms, blocks)

Files are only read. High watermarks come from the checkpoints that a node writes when it ends. While the node runs
these are some seconds old, and the end of a log is taken instead. The states of replicas and leaders during the run are
not seen, so the checkers that judge such states have nothing to judge here.
"""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from sqlalchemy import create_engine, select

from oncelog.errors import OncelogError
from oncelog_controller.core.records import ProducerIdsAllocated, Snapshot
from oncelog_controller.schema import metadata_journal
from oncelog_robustness.checkers.cluster_open_transactions import check as check_open
from oncelog_robustness.checkers.cluster_replicas import check_same_batches
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.history import History
from oncelog_robustness.log_files import read_all_states, read_logs
from oncelog_robustness.observations import Observations, ProducerIdsGiven
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import STORAGE

LOOK_S: Final = 0.5
_NOBODY: Final = -1


@dataclass(frozen=True, slots=True)
class Evidence:
    """Reads what a cluster's nodes have written. `data_dirs` are their folders by node id; an empty
    `database_url` means that the metadata journal is not read."""

    data_dirs: Mapping[int, Path]
    database_url: str = ""

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        folders = {
            member.node_id: cluster.folder / "data" / member.name
            for member in cluster.of_role(STORAGE)
        }
        return cls(folders, cluster.state.postgres_url)

    def read(self, at_ms: int, blocks: Sequence[ProducerIdsGiven] = ()) -> Observations:
        """Read the logs of all nodes and return them as observations for the checkers, made at `at_ms` of the run. The
        cluster must have stopped in order. `blocks` are the producer ids that `blocks()` returned before."""
        return self._read(at_ms, blocks, is_running=False)

    def blocks(self) -> list[ProducerIdsGiven]:
        """Return every block of producer ids that was given out, as the metadata journal records it. All
        blocks before its last snapshot count as one."""
        engine = create_engine(self.database_url)
        try:
            with closing(engine.connect()) as connection:
                rows = connection.execute(
                    select(metadata_journal.c.record_type, metadata_journal.c.body)
                    .where(
                        metadata_journal.c.record_type.in_(
                            [ProducerIdsAllocated.__name__, Snapshot.__name__]
                        )
                    )
                    .order_by(metadata_journal.c.metadata_offset)
                ).all()
        finally:
            engine.dispose()
        found: list[ProducerIdsGiven] = []
        for record_type, text in rows:
            body = json.loads(text)
            if record_type == Snapshot.__name__:
                count = int(body["state"]["next_producer_id"])
                found = [ProducerIdsGiven(0, _NOBODY, 0, count)] if count else []
            else:
                first, count = int(body["first_producer_id"]), int(body["count"])
                found.append(ProducerIdsGiven(0, _NOBODY, first, count))
        return found

    def wait_settled(self, timeout_s: float) -> str:
        """Wait until no transaction is open and every replica is complete, and return "".
        After `timeout_s` seconds, return what is not."""
        deadline = time.monotonic() + timeout_s
        while True:
            open_still = self.unsettled()
            if not open_still or time.monotonic() > deadline:
                return open_still
            time.sleep(LOOK_S)

    def unsettled(self) -> str:
        """Return what is open or behind in a cluster that runs; empty when nothing is."""
        seen = self._read(0, (), is_running=True)
        for check in (check_open, check_same_batches):
            verdict = check(History(), seen)
            if verdict.answer is Answer.BROKEN:
                return verdict.proof[0]
        return ""

    def _read(
        self, at_ms: int, blocks: Sequence[ProducerIdsGiven], *, is_running: bool
    ) -> Observations:
        observations = Observations(blocks=list(blocks), is_healed=True)
        replicas = []
        for node_id in sorted(self.data_dirs):
            data_dir = self.data_dirs[node_id]
            if not data_dir.is_dir():
                raise OncelogError(f"node {node_id} has no data folder {data_dir}")
            for log in read_logs(data_dir, node_id, at_ms):
                end = log.end_offset if is_running else log.high_watermark
                replicas.append((data_dir, replace(log, high_watermark=end)))
        observations.logs += [log for _, log in replicas]
        observations.states += read_all_states(replicas)
        return observations
