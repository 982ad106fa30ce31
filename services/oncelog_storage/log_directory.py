"""The data folder of a node: its owner, its identity, and the files that hold numbers of all partitions.

```
.lock                             held while a process uses the folder
meta.properties                   which cluster and node the folder belongs to
node-history                      its node's last registration (`folder_history`)
metadata-seen                     the newest metadata that its node acted on
.kafka_cleanshutdown              the last process ended in order
boot-id                           when the machine was started that used the folder last: it may have lost power since
recovery-point-offset-checkpoint  per partition: below it everything is synced
log-start-offset-checkpoint       per partition that has a folder: below it records are deleted
replication-offset-checkpoint     per partition with followers: the high watermark, as it was known not long ago
cleaner-offset-checkpoint         per compacted partition: where the last cleaning ended
topic-id-checkpoint               per partition that has a folder: the topic id as a number
coordinator-epoch-checkpoint      per shard: the highest coordinator epoch that appended
<topic>-<partition>/              a partition; renamed to …-delete before it is removed, to …-stray when no metadata
                                  knows it at start
```

The text of checkpoint files is in `core.checkpoint_files`.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog_storage import files
from oncelog_storage.core.checkpoint_files import (
    TOPIC_ID_CHARACTERS,
    decode_checkpoint,
    encode_checkpoint,
    may_have_lost_power,
    partitions_named,
    properties_of,
    topic_number,
)
from oncelog_storage.core.segment_files import PARTITION_METADATA
from oncelog_storage.files import (
    FILE_MODE,
    StorageFailed,
    make_folder,
    sync_directory,
    way_out,
    write_atomically,
)

_log = logging.getLogger(__name__)

LOCK: Final = ".lock"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
TOPIC_IDS: Final = "topic-id-checkpoint"
COORDINATOR_EPOCHS: Final = "coordinator-epoch-checkpoint"
DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
_BOOT_ID: Final = "boot-id"
_KEEPS_CHECKS: Final = "segments.checked"
"""The property in meta.properties that is set once each partition has its `segments-checkpoint`, which shows lost
segments at a start.

An older version of oncelog removes the property. Then a missing file says nothing until all are written again.
"""


class CheckpointFile(dict[Partition, int]):
    """A checkpoint file in memory: a number for each partition. A change is on disk once `encoded` is written."""

    def __init__(self, path: Path, without_it: str, *, is_needed: bool = False) -> None:
        super().__init__()
        self.path = path
        self.without_it = without_it
        """The text of errors that says what the node does without the file."""
        self.is_needed = is_needed
        """True if the file is always synced and cannot be derived. A node does not start with a damaged one."""

    def read(self) -> None:
        """Read the numbers from the file. Raises StorageFailed for a damaged file, OSError."""
        self.clear()
        try:
            self.update(decode_checkpoint(self.path.read_text()))
        except FileNotFoundError:
            return
        except ValueError:
            advice = self.without_it if self.is_needed else "the next start does without it"
            raise StorageFailed(
                f"{self.path} is damaged; restore it from a backup or delete it, and {advice}"
            ) from None

    def replace(self, numbers: Mapping[Partition, int]) -> dict[Partition, int]:
        """Replace all numbers that this checkpoint file keeps of partitions, in memory. Return the numbers
        from before.
        """
        before = dict(self)
        self.clear()
        self.update(numbers)
        return before

    def encoded(self) -> tuple[Path, bytes]:
        """Return (path, content) of the file as it is now, for a worker thread to write."""
        return self.path, encode_checkpoint(self)


class LogDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.was_clean = False
        self.may_have_lost_power = False
        """True if the machine was started again since the folder was last used, or if nobody can tell."""
        self.may_be_of_older_version = False
        """True if the folder has no boot id of the machine: a version that did not write one may have used it last.

        Such a version could leave, in an emptied log, the index of a segment that had no file yet.
        """
        self.keeps_checks = False
        """True if no older version used the folder last.

        Then `segments-checkpoint` in each partition says what its segments are.
        """
        self.is_stopping = False
        self.recovery_points = CheckpointFile(
            path / RECOVERY_POINTS,
            "the next start checks every partition from its beginning",
            is_needed=True,
        )
        self.log_start_offsets = CheckpointFile(
            path / LOG_STARTS,
            "records that were deleted by offset may be there again",
            is_needed=True,
        )
        self.high_watermarks = CheckpointFile(
            path / HIGH_WATERMARKS, "high watermarks begin at 0 until replicas are heard of"
        )
        self.cleaner_offsets = CheckpointFile(
            path / CLEANER_OFFSETS, "compacted partitions are cleaned from their beginning"
        )
        self.coordinator_epochs = CheckpointFile(
            path / COORDINATOR_EPOCHS, "the metadata alone says which coordinators are fenced"
        )
        self.topic_ids = CheckpointFile(
            path / TOPIC_IDS,
            "a folder in the place of another topic's is taken for a deleted one's",
        )
        self._of_logs = (
            self.recovery_points,
            self.log_start_offsets,
            self.topic_ids,
            self.high_watermarks,
            self.cleaner_offsets,
        )
        self._checkpoints = (*self._of_logs, self.coordinator_epochs)
        self._lock: int | None = None

    def open(self, cluster_id: str, node_id: int) -> None:
        """Lock the folder for this node, and read its checkpoint files.

        Raises OncelogError if it is in use, not writable, or another cluster's or node's.
        """
        try:
            make_folder(self.path)
            self._take_lock()
            self._check_identity(cluster_id, node_id)
            clean = self.path / CLEAN_SHUTDOWN
            self.was_clean = clean.exists()
            clean.unlink(missing_ok=True)
            known, current = self._known_boot_id(), files.machine_boot_id()
            self.may_be_of_older_version = not known
            self.may_have_lost_power = may_have_lost_power(known, current)
            self._read_checkpoints()
        except OSError as error:
            self.close()
            advice = way_out(error, "make it writable for this user or choose another folder")
            raise OncelogError(
                f"cannot use the data folder {self.path}: {error.strerror}; {advice}"
            ) from error
        except OncelogError:
            self.close()
            raise

    def open_for_repair(self) -> list[str]:
        """Lock the folder of a node that does not run, and read it. Return the names of the damaged checkpoint files
        without which the node would not start.

        Raises OSError, OncelogError.
        """
        if not (self.path / META_PROPERTIES).exists() and not self.partitions():
            raise OncelogError(f"{self.path} is no data folder; name that of a storage node")
        self._take_lock()
        self.keeps_checks = _KEEPS_CHECKS in _read_properties(self.path / META_PROPERTIES)
        self.may_have_lost_power = may_have_lost_power(
            self._known_boot_id(), files.machine_boot_id()
        )
        damaged: list[str] = []
        for checkpoint in self._of_logs:
            try:
                checkpoint.read()
            except StorageFailed:
                if checkpoint.is_needed:
                    damaged.append(checkpoint.path.name)
        return damaged

    def _read_checkpoints(self) -> None:
        """Read all checkpoint files. Raises StorageFailed for a damaged file that is needed, OSError."""
        for checkpoint in self._checkpoints:
            try:
                checkpoint.read()
            except StorageFailed as error:
                if checkpoint.is_needed:
                    raise
                _log.warning("%s; until then %s", error, checkpoint.without_it)

    def hold(self) -> None:
        """Keep others out of the folder until `close`. Raises OSError, OncelogError."""
        make_folder(self.path)
        self._take_lock()

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def mark_recovered(self) -> None:
        """Write down that this start has repaired what a power cut left.

        From now on only another power cut excuses damage. Raises OSError.
        """
        current = files.machine_boot_id()
        if current and self._known_boot_id() != current:
            write_atomically(self.path / _BOOT_ID, f"{current}\n".encode(), sync=True)
        found = _read_properties(self.path / META_PROPERTIES)
        if _KEEPS_CHECKS not in found:
            self._write_identity({**found, _KEEPS_CHECKS: "true"})

    def _known_boot_id(self) -> str:
        try:
            return (self.path / _BOOT_ID).read_text(errors="replace").strip()
        except FileNotFoundError:
            return ""

    def mark_clean(self) -> None:
        """Write the mark of a clean shutdown: everything is synced and checkpointed. Raises OSError."""
        write_atomically(self.path / CLEAN_SHUTDOWN, b'{"version":0}\n', sync=True)

    def _take_lock(self) -> None:
        self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OncelogError(
                f"the data folder {self.path} is in use by another process; stop that one or choose another folder"
            ) from None

    def _check_identity(self, cluster_id: str, node_id: int) -> None:
        path = self.path / META_PROPERTIES
        found = _read_properties(path)
        for name, expected in (("cluster.id", cluster_id), ("node.id", str(node_id))):
            actual = found.get(name, "")
            if actual and expected and actual != expected:
                raise OncelogError(
                    f"the data folder {self.path} belongs to {name}={actual}, not {expected}; choose this node's own"
                    " folder, or an empty one"
                )
        self.keeps_checks = _KEEPS_CHECKS in found
        wanted = {
            "version": "1",
            "cluster.id": cluster_id or found.get("cluster.id", ""),
            "node.id": str(node_id),
            **({_KEEPS_CHECKS: found[_KEEPS_CHECKS]} if self.keeps_checks else {}),
        }
        if wanted != found:
            self._write_identity(wanted)

    def _write_identity(self, properties: Mapping[str, str]) -> None:
        """Write meta.properties. Raises OSError."""
        lines = "".join(f"{name}={value}\n" for name, value in properties.items())
        write_atomically(self.path / META_PROPERTIES, lines.encode(), sync=True)

    # Partitions.

    def partition_path(self, partition: Partition) -> Path:
        return self.path / str(partition)

    def partitions(self) -> list[tuple[Partition, str]]:
        """Return (partition, its topic id as text or "" if unknown) of every partition folder, sorted.

        Raises OSError.
        """
        return [
            (partition, _topic_id_in(self.path / name))
            for name, partition in partitions_named(os.listdir(self.path))
            if (self.path / name).is_dir()
        ]

    def has_hosted(self, partition: Partition) -> bool:
        """True if the partition had a folder here and was not deleted."""
        return partition in self._hosted()

    def _hosted(self) -> set[Partition]:
        return {*self.recovery_points, *self.log_start_offsets, *self.topic_ids}

    def hosted_without_folder(self) -> list[Partition]:
        """Return the partitions that were stored here and whose folder is gone, although this node did not remove
        it.
        """
        return sorted(each for each in self._hosted() if not self.partition_path(each).is_dir())

    def stored_topic_id(self, partition: Partition) -> str | None:
        """Return the topic id in this partition's folder, "" if unknown; None without a folder."""
        path = self.partition_path(partition)
        if not path.is_dir():
            return None
        return _topic_id_in(path)

    def forget(self, partition: Partition) -> list[tuple[Path, bytes]]:
        """Remove a partition from all checkpoints in memory.

        Return the checkpoint files that must be written before its folder is removed. Otherwise a topic created again
        under this name could inherit the old offsets after a crash.
        """
        known = [one for one in self._checkpoints if one.pop(partition, None) is not None]
        return [one.encoded() for one in known]

    def lower(self, partition: Partition, end: int) -> None:
        """Lower the stored numbers of a partition to `end` at most: nothing behind it is promised. Raises OSError."""
        for checkpoint in (self.recovery_points, self.high_watermarks, self.cleaner_offsets):
            if checkpoint.get(partition, 0) > end:
                checkpoint[partition] = end
                write_checkpoints([checkpoint.encoded()])

    def retire(self, partition: Partition, writes: list[tuple[Path, bytes]]) -> None:
        """Write what `forget` returned, then rename the folder so that it no longer counts. Raises OSError."""
        write_checkpoints(writes)
        if self.partition_path(partition).exists():
            self._rename(partition, DELETE_SUFFIX)

    def set_aside(self, partition: Partition, topic_id: bytes | None) -> Path:
        """Rename a folder that no metadata knows, and forget its offsets. Return its new path. Raises OSError.

        `topic_id` is that of the topic with this name now. If that topic was stored here, its folder is missing, and it
        stays known as missing.
        """
        if topic_id is None or self.topic_ids.get(partition) != topic_number(topic_id):
            write_checkpoints(self.forget(partition))
        return self._rename(partition, STRAY_SUFFIX)

    def strays(self) -> dict[tuple[str, int], Path]:
        """Return the folders that were set aside, by topic id and partition. Raises OSError."""
        found = {}
        for name in sorted(os.listdir(self.path)):
            stem, _, number = name.rpartition(".")[0].rpartition("-")
            if name.endswith(STRAY_SUFFIX) and stem and number.isdigit():
                found[_topic_id_in(self.path / name), int(number)] = self.path / name
        return found

    def _rename(self, partition: Partition, suffix: str) -> Path:
        stem = f"{partition.topic[:200]}-{partition.partition}"
        target = self.path / f"{stem}.{uuid.uuid4().hex}{suffix}"
        os.rename(self.partition_path(partition), target)
        sync_directory(self.path)
        return target

    def remove_retired(self) -> None:
        """Remove every folder that was renamed for deletion. A worker thread calls this. Raises OSError."""
        for name in os.listdir(self.path):
            # A stop does not wait for it; the next start goes on.
            if self.is_stopping:
                return
            if name.endswith(DELETE_SUFFIX) and (self.path / name).is_dir():
                shutil.rmtree(self.path / name)


def write_checkpoints(writes: list[tuple[Path, bytes]], *, sync: bool = True) -> None:
    """Write these checkpoint files. Raises OSError."""
    for path, data in writes:
        write_atomically(path, data, sync=sync)


def _topic_id_in(folder: Path) -> str:
    """Return the topic id in a partition's folder; "" if it is not there whole.

    Its file is not synced by itself, so a power cut can tear it.
    """
    try:
        found = _read_properties(folder / PARTITION_METADATA, separator=":").get("topic_id", "")
    except OSError as error:
        _log.warning("cannot read %s: %s", folder / PARTITION_METADATA, error.strerror)
        return ""
    return found if len(found) == TOPIC_ID_CHARACTERS else ""


def _read_properties(path: Path, separator: str = "=") -> dict[str, str]:
    with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
        return properties_of(path.read_text(), separator)
    return {}
