"""A storage node's memory of its cluster, in the files `node-history` and `metadata-seen` of its folder.

A folder and the controller's metadata belong together, and either may be put back from an older copy. So each
registration carries the newest metadata that the node acted on, and the incarnations under which it registered before
(an incarnation is the id of one process start). The controller compares them (ADR 0027). An incarnation is written down
before it is used: a process that is killed between its registration and the answer leaves a folder that knows of it.

The newest metadata is noted often and not synced, in a file of its own: a power cut may take it, and then it is not
known. A folder without `node-history`, but with an identity, was written by an older version, and the controller
compares nothing. Without an identity it is new.
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import OncelogError
from oncelog.rpc.metadata import MetadataFollower, MetadataImage
from oncelog_storage.core.node_history import (
    MetadataPosition,
    NodeHistory,
    decode_history,
    decode_position,
    encode_position,
)
from oncelog_storage.files import make_folder, way_out, write_atomically
from oncelog_storage.log_directory import META_PROPERTIES, LogDirectory

_log = logging.getLogger(__name__)

NODE_HISTORY: Final = "node-history"
METADATA_SEEN: Final = "metadata-seen"
NOTE_DELAY_S: Final = 0.5
"""The delay before a change of metadata is noted, in seconds, as changes come many together. A kill may forget them."""


def node_folder(path: Path) -> Path:
    """Return a storage node's data folder. `path` is that folder, or the folder that `oncelog up` was given.

    Raises OncelogError.
    """
    if not path.is_dir():
        raise OncelogError(f"there is no folder {path}; if it was lost, make it first")
    is_of_up = (path / "controller.db").exists() or (path / "logs").is_dir()
    return path / "logs" if is_of_up else path


class FolderHistory:
    """The memory of earlier registrations and metadata in one storage node's data folder, sent with each registration.

    The caller calls `begin`, then `message` with each registration, then `registered`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._history = NodeHistory()
        self._current = ""
        self._position = MetadataPosition()
        self._handle: asyncio.TimerHandle | None = None

    # The steps of a registration.

    def begin(self, incarnation_id: str) -> None:
        """Read the folder's history, and write this process's incarnation (the id of its start) into it before it
        registers.

        Raises OncelogError.
        """
        self._read()
        self._current = incarnation_id
        if not self._history.is_unknown:
            self._history = self._history.begun(incarnation_id)
            self._write()

    def message(self) -> pb.FolderHistory | None:
        if self._history.is_unknown:
            return None
        return pb.FolderHistory(
            incarnation_ids=self._history.before(self._current),
            accepts_loss=self._history.accepts_loss,
            metadata_offset=self._position.metadata_offset,
            controller_epoch=self._position.controller_epoch,
            controller_incarnation_id=self._position.controller_incarnation_id,
        )

    def registered(self) -> None:
        """Write down that the incarnation given to `begin` has registered; earlier ones are dropped.

        It is in the file already, so a full disk does no harm.
        """
        if self._history.incarnation_ids == (self._current,):
            return
        self._history = self._history.registered(self._current)
        try:
            self._write()
        except OncelogError as error:
            _log.warning("%s", error)

    # The metadata that is acted on.

    def follow(self, metadata: MetadataFollower) -> None:
        """Write down the position of the newest metadata image from now on, until `close`."""
        self._see(metadata.image)
        metadata.on_change(lambda _old, new: self._see(new))

    def close(self) -> None:
        """Write the position of the newest metadata to its file, if that is still to be done."""
        if self._handle is not None:
            self._handle.cancel()
            self._note(sync=True)

    def _see(self, image: MetadataImage) -> None:
        if not image.controller_incarnation_id:
            return
        self._position = MetadataPosition(
            image.metadata_offset,
            image.controller_epoch,
            image.controller_incarnation_id,
        )
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(NOTE_DELAY_S, self._note)

    def _note(self, *, sync: bool = False) -> None:
        self._handle = None
        try:
            self._replace(METADATA_SEEN, encode_position(self._position), sync=sync)
        except OncelogError as error:
            _log.warning("%s; until it can, older metadata may not be noticed", error)

    # The file.

    def accept_loss(self) -> None:
        """Write down that the folder holds all the data there is, as an operator has decided.

        The node's next registration says so. Raises OncelogError.
        """
        directory = LogDirectory(self._folder)
        try:
            directory.hold()
            self._read()
            self._history = self._history._replace(accepts_loss=True, is_unknown=False)
            self._write()
        except OSError as error:
            raise OncelogError(
                f"cannot use {self._folder}: {error.strerror}; {way_out(error)}"
            ) from error
        finally:
            directory.close()

    def _read(self) -> None:
        path = self._folder / NODE_HISTORY
        try:
            self._history = decode_history(path.read_bytes())
            self._position = self._read_position()
        except FileNotFoundError:
            is_unknown = (self._folder / META_PROPERTIES).exists()
            self._history = self._history._replace(is_unknown=is_unknown)
        except OSError as error:
            raise OncelogError(f"cannot read {path}: {error.strerror}; {way_out(error)}") from error
        except (ValueError, KeyError, TypeError):
            raise OncelogError(
                f"{path} is damaged; restore it from a backup. Deleted, nobody notices that the folder is older than"
                " the metadata, or newer"
            ) from None

    def _read_position(self) -> MetadataPosition:
        """Read `metadata-seen`; a missing or damaged file gives an unknown position. Raises OSError."""
        path = self._folder / METADATA_SEEN
        try:
            return decode_position(path.read_bytes())
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError):
            # A power cut does that: it is not synced. A number that is wrong would keep the node out for ever.
            _log.warning("%s is damaged: older metadata may not be noticed", path)
        return MetadataPosition()

    def _write(self) -> None:
        self._replace(NODE_HISTORY, self._history.encode(), sync=True)

    def _replace(self, name: str, data: bytes, *, sync: bool) -> None:
        path = self._folder / name
        try:
            make_folder(self._folder)
            write_atomically(path, data, sync=sync)
        except OSError as error:
            raise OncelogError(
                f"cannot write {path}: {error.strerror}; {way_out(error)}"
            ) from error
