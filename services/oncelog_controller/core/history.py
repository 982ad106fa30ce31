"""Positions in the metadata, by which a controller notices a node that has followed other metadata (ADR 0039).

A database and its older copy begin as one. Once the copy has grown, the two have different records at the same offsets.
So an offset comes with the claim of the controller that wrote there: its epoch and the id of its process start. No two
controllers have the same claim.
"""

from dataclasses import dataclass
from typing import Final

from oncelog.errors import ErrorCode

OTHER_HISTORY: Final = ErrorCode.KAFKA_STORAGE_ERROR
"""The error code for a node that has seen metadata which this controller's journal does not have.

The refusal may be wrong: a deposed controller lacks its successor's records.
"""


@dataclass(frozen=True, slots=True)
class MetadataPosition:
    """A position in the metadata: an offset, and the epoch and process start of the controller that wrote there."""

    metadata_offset: int = -1
    controller_epoch: int = -1
    controller_incarnation_id: str = ""  # unknown


NOWHERE: Final = MetadataPosition()


def not_in_this_journal(whom: str, seen: MetadataPosition) -> str:
    """Return the error message for a process that has seen metadata which the journal does not have, with the way out.

    `whom` names the process in it, such as "node 3".
    """
    return (
        f"the metadata is older than {whom}, or of another history: metadata offset {seen.metadata_offset} of"
        f" controller epoch {seen.controller_epoch} was seen, which is not in this journal. Stop everything and restore"
        " metadata and folders of all storage nodes from one backup, or bring the newer metadata back (docs/backup.md)"
    )
