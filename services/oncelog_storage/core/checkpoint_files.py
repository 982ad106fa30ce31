"""The text of the data folder's checkpoint files; a partition's own are in `core.segment_checks`, `core.leader_epochs`.

The module also knows the text of topic ids, and the names of the partitions' folders. A checkpoint of the data folder
has Kafka's format: version 0, count, one `topic partition number` a line. The last line holds the CRC-32C
of the other lines as a partition's number, under a name that no topic may have.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Final

from crc32c import crc32c

from oncelog.ids import Partition

_CHECKSUM: Final = "/checksum"
_DAMAGED_CHARACTERS_MAX: Final = 4
"""Two topic ids that differ in at most this many characters count as one id.

The random ids of two topics are that similar with a chance below 10^-28.
"""


def encode_checkpoint(numbers: Mapping[Partition, int]) -> bytes:
    rows = (f"{topic} {partition} {number}\n" for (topic, partition), number in numbers.items())
    text = f"0\n{len(numbers) + 1}\n{''.join(rows)}"
    return f"{text}{_CHECKSUM} 0 {crc32c(text.encode())}\n".encode()


def decode_checkpoint(text: str) -> dict[Partition, int]:
    """Return the number of each partition in a checkpoint file, which may lack the line of the checksum.

    Raises ValueError.
    """
    lines = text.splitlines()
    # A number that was cut short is a number: only the end of its line says that it is whole.
    is_whole = len(lines) >= 2 and text.endswith("\n")
    if not is_whole or lines[0] != "0" or int(lines[1]) != len(lines) - 2:
        raise ValueError("no checkpoint file")
    numbers = {}
    for line in lines[2:]:
        topic, partition, number = line.split(" ")
        if topic == _CHECKSUM:
            _check(lines[:-1], number)
            continue
        numbers[Partition(topic, int(partition))] = int(number)
    return numbers


def _check(lines: Iterable[str], checksum: str) -> None:
    """Check these lines of a checkpoint file against the CRC-32C that the file states. Raises ValueError."""
    text = "".join(f"{line}\n" for line in lines)
    if str(crc32c(text.encode())) != checksum:
        raise ValueError("the checkpoint file fails its CRC-32C")


def partitions_named(names: Iterable[str]) -> list[tuple[str, Partition]]:
    """Return (folder name, partition) for each of these names that a partition's folder may have, sorted by name."""
    found = []
    for name in sorted(names):
        topic, dash, number = name.rpartition("-")
        if dash and topic and number.isdigit():
            found.append((name, Partition(topic, int(number))))
    return found


def properties_of(text: str, separator: str = "=") -> dict[str, str]:
    """Return the values of all `name=value` lines by name. Other lines are left out."""
    found = {}
    for line in text.splitlines():
        name, sign, value = line.partition(separator)
        if sign:
            found[name.strip()] = value.strip()
    return found


def encode_topic_id(topic_id: bytes) -> str:
    """A topic id as Kafka writes it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def topic_number(topic_id: bytes) -> int:
    """Return a topic id as a whole number, which is how a checkpoint file can hold it."""
    return int.from_bytes(topic_id, "big")


TOPIC_ID_CHARACTERS: Final = len(encode_topic_id(bytes(16)))


def is_same_topic(stored_topic_id: str, topic_id: bytes) -> bool:
    """True if a folder's stored topic id stands for `topic_id`.

    A stored id that a crash cut off counts, and so does one with at most four damaged characters.
    """
    pairs = zip(stored_topic_id, encode_topic_id(topic_id), strict=False)
    return sum(one != other for one, other in pairs) <= _DAMAGED_CHARACTERS_MAX


def may_have_lost_power(known_boot_id: str, current_boot_id: str) -> bool:
    """True if the machine was started again since the folder was last used, or if nobody can tell.

    "" is an unknown boot id.
    """
    return not current_boot_id or known_boot_id not in ("", current_boot_id)
