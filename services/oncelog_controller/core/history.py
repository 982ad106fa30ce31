"""The position of a node in a history of the metadata (ADR 0039).

Two histories that began as one, of a database and of its older copy, have records at the same offsets once the second
has grown. So an offset comes with the claim of the controller that wrote there: no two terms have the same claim.
"""

from dataclasses import dataclass
from typing import Final

from oncelog.errors import ErrorCode

OTHER_HISTORY: Final = ErrorCode.KAFKA_STORAGE_ERROR
"""The error code for a node of another history. It may be wrong: a deposed controller lacks its successor's records."""


@dataclass(frozen=True, slots=True)
class MetadataPosition:
    """A position in one history: an offset, and the claim of the controller that wrote there."""

    metadata_offset: int = -1
    controller_epoch: int = -1
    controller_incarnation_id: str = ""  # unknown


NOWHERE: Final = MetadataPosition()


def not_in_this_journal(whom: str, seen: MetadataPosition) -> str:
    """Return the message to a node that has seen metadata which the journal does not have, with the way out."""
    return (
        f"the metadata is older than {whom}, or of another history: metadata offset {seen.metadata_offset} of"
        f" controller epoch {seen.controller_epoch} was seen, which is not in this journal. Stop everything and restore"
        " metadata and folders of all storage nodes from one backup, or bring the newer metadata back (docs/backup.md)"
    )
