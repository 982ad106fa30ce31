"""The memory of its cluster in a storage node's folder: the process start that registered last, those that began since,
and the newest metadata.

The controller compares this with its own metadata, to notice that one of the two was put back from an older copy (ADR
0027).
"""

import json
from typing import Any, Final, NamedTuple, TypeAlias

from crc32c import crc32c

Json: TypeAlias = Any
"""A value of a file as JSON has it. The reader converts it, and takes what fails for a damaged file."""
CHECKSUM: Final = "crc32c"
TRIES_MAX: Final = 100
"""A node's data folder remembers at most this many process starts since the last registration."""


class MetadataPosition(NamedTuple):
    """The position of the newest metadata that the node acted on, and the controller that wrote them."""

    metadata_offset: int = -1
    controller_epoch: int = -1
    controller_incarnation_id: str = ""


class NodeHistory(NamedTuple):
    """The ids of process starts (incarnations) in a node's data folder: the one that registered last, then those that
    began since. They stand in order, the oldest first.

    `accepts_loss`: an operator said that the folder holds all the data there is.
    """

    incarnation_ids: tuple[str, ...] = ()
    accepts_loss: bool = False
    is_unknown: bool = False
    """True if an older version wrote the folder, without a history. Then the controller does not judge the folder."""

    def begun(self, incarnation_id: str) -> "NodeHistory":
        """Return the history with the incarnation (the id of a process start) that is about to register."""
        if self.is_unknown:
            return self
        last, *tries = self.incarnation_ids or ("",)
        kept = (last, *tries[-TRIES_MAX:], incarnation_id)
        return self._replace(incarnation_ids=tuple(one for one in kept if one))

    def registered(self, incarnation_id: str) -> "NodeHistory":
        """Return the history after this incarnation (the id of a process start) has registered: it alone stays."""
        return NodeHistory((incarnation_id,))

    def before(self, incarnation_id: str) -> list[str]:
        """Return the incarnations (ids of process starts) to be sent with a registration: all but `incarnation_id`.

        That is the process that registers now. It wrote its id into the data folder at this start. So only the others
        tell the controller if the node registered with this folder before.
        """
        return [one for one in self.incarnation_ids if one != incarnation_id]

    def encode(self) -> bytes:
        content: dict[str, Json] = {"incarnation_ids": list(self.incarnation_ids)}
        if self.accepts_loss:
            content["accepts_loss"] = True
        return _with_checksum(content)


def decode_history(data: bytes) -> NodeHistory:
    """Read the content of `node-history`. Raises ValueError, KeyError, TypeError."""
    found = _checked(data)
    return NodeHistory(tuple(found["incarnation_ids"]), bool(found.get("accepts_loss")))


def encode_position(position: MetadataPosition) -> bytes:
    return _with_checksum(position._asdict())


def decode_position(data: bytes) -> MetadataPosition:
    """Read the content of `metadata-seen`. Raises ValueError, KeyError, TypeError."""
    found = _checked(data)
    return MetadataPosition(
        int(found["metadata_offset"]),
        int(found["controller_epoch"]),
        str(found["controller_incarnation_id"]),
    )


def _with_checksum(content: dict[str, Json]) -> bytes:
    body = json.dumps(content, sort_keys=True)
    return f"{json.dumps({**content, CHECKSUM: crc32c(body.encode())}, sort_keys=True)}\n".encode()


def _checked(data: bytes) -> dict[str, Json]:
    """Return the fields of a file after a check of its CRC-32C. Raises ValueError, KeyError, TypeError."""
    content: dict[str, Json] = json.loads(data)
    del content[CHECKSUM]
    if data != _with_checksum(content):
        raise ValueError("its checksum is wrong")
    return content
