"""The check that a storage node's data folder and the metadata belong together (ADR 0027).

Each has a memory of the other. An incarnation is one start of a process. The metadata has the incarnation under which
each node registered last, and the folder has it too, written before the registration and kept after it. The folder has
the newest metadata that the node acted on, and the journal knows which controller wrote from which offset to which. So
two mixtures are noticed:

* metadata older than the folder. It may name replicas in sync that are not, and gives producer ids and epochs again.
  The node is refused, and waits.
* a folder older than the metadata, or an empty one in the place of one that was lost. It may lack acknowledged records.
  The node leaves every ISR in which another replica stays, and copies what it lacks. Where it is the last one in sync
  it is refused, until an operator accepts what is in the folder.
"""

from dataclasses import replace

from oncelog.errors import ErrorCode, KafkaError
from oncelog.wording import counted
from oncelog_controller.core.events import Folder, RegisterNode
from oncelog_controller.core.history import OTHER_HISTORY, not_in_this_journal
from oncelog_controller.core.image import (
    NO_LEADER,
    STORAGE,
    ClusterImage,
    PartitionRegistration,
)
from oncelog_controller.core.leadership import partitions_changed
from oncelog_controller.core.records import MetadataRecord

SHOWN_PARTITIONS_MAX = 3


def judged_folder(image: ClusterImage, event: RegisterNode) -> list[MetadataRecord]:
    """Check a storage node's data folder at its registration, and return the records to write before the registration.

    They take the node out of ISRs if its folder may lack acknowledged records. Raises KafkaError if the node may not
    register: its folder is newer than the metadata, or it is the last replica in sync of a partition, and no operator
    has accepted the loss.
    """
    folder = event.folder
    if folder is None:
        return []
    if not image.has(folder.seen):
        whom = f"the folder of node {event.node_id}"
        raise KafkaError(OTHER_HISTORY, not_in_this_journal(whom, folder.seen))
    known = image.nodes.get(event.node_id)
    if known is None or STORAGE not in known.roles:
        return []
    if known.incarnation_id in (event.incarnation_id, *folder.incarnation_ids):
        return []
    return _demoted(image, event, folder)


def _demoted(image: ClusterImage, event: RegisterNode, folder: Folder) -> list[MetadataRecord]:
    node_id = event.node_id
    changed: dict[tuple[str, int], PartitionRegistration] = {}
    alone = []
    for name, topic in image.topics.items():
        for number, partition in enumerate(topic.partitions):
            isr = tuple(replica for replica in partition.isr if replica != node_id)
            if isr and isr != partition.isr:
                leader = NO_LEADER if partition.leader == node_id else partition.leader
                changed[name, number] = replace(partition, isr=isr, leader=leader)
            elif not isr:
                alone.append(f"{name}-{number}")
    if alone and not folder.accepts_loss:
        more = ", …" if len(alone) > SHOWN_PARTITIONS_MAX else ""
        what = "is older than the metadata" if folder.incarnation_ids else "is empty, and was not"
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the folder of node {node_id} {what}: it may lack acknowledged records, and no other replica in sync has"
            f" them of {counted(len(alone), 'partition')} ({', '.join(alone[:SHOWN_PARTITIONS_MAX])}{more}). Put the"
            " node's newest folder back, or stop everything and restore metadata and all folders from one backup."
            " Where it is all there is: `oncelog storage accept-loss FOLDER` (docs/backup.md)",
        )
    return partitions_changed(changed)
