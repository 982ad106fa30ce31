"""Backups of a stopped `oncelog up` or a stopped cluster of one machine: one file, whole or not there (docs/backup.md).

A backup holds metadata and logs together, for neither may be put back without the other (ADR 0027). It is a tar file.
Its last member, the manifest, has every file's size and SHA-256. So a backup that was cut or damaged is refused before
anything of it is used. A restored cluster skips ahead, so that it hands out only producer ids and epochs that no client
has had.
"""

import asyncio
import contextlib
import gzip
import hashlib
import json
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Final, TypedDict

from oncelog.errors import OncelogError
from oncelog_server.data_folder import DataFolder, make_private, open_privately

FORMAT: Final = 1
MANIFEST: Final = "oncelog-backup.json"
RESTORING: Final = ".restoring"
SQLITE: Final = "controller.db"
POSTGRES: Final = "postgres"
CLUSTER_FILE: Final = "cluster.json"
UP: Final = "up"
CLUSTER: Final = "cluster"
COMPRESSION: Final = 1
DATABASE_TIMEOUT_MS: Final = 30_000
_CHUNK_BYTES: Final = 1 << 20


class _Fingerprint(TypedDict):
    size: int
    sha256: str


class _Manifest(TypedDict):
    """The JSON of a backup's last member: which files the backup has, and which oncelog made it."""

    format: int
    oncelog: str
    kind: str
    made_at: str
    files: dict[str, _Fingerprint]


@dataclass(frozen=True, slots=True)
class Backup:
    """The summary of a backup, which `back_up` and `restore` return for the command to print."""

    kind: str
    made_at: str
    oncelog: str
    file_count: int
    size_bytes: int
    """Bytes of the files, unpacked."""


def back_up(folder: Path, target: Path) -> Backup:
    """Write a backup of the folder of a stopped log into the new file `target`. Raises OncelogError."""
    folder, target = folder.absolute(), target.absolute()
    kind = _kind_of(folder)
    if target.exists():
        raise OncelogError(f"{target} exists; name a file that does not")
    if target.is_relative_to(folder):
        raise OncelogError(f"{target} is inside of {folder}; put the backup elsewhere")
    partial = target.with_name(f"{target.name}.partial")
    try:
        with ExitStack() as stack:
            _hold_stopped(stack, folder, kind)
            made = _write(folder, kind, partial)
            partial.replace(target)
            return made
    except OSError as error:
        raise OncelogError(f"cannot write {target}: {error}; nothing was changed") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def restore(source: Path, folder: Path) -> Backup:
    """Unpack a backup into `folder`, which must be empty or not exist. The log can be started there afterwards. Raises
    OncelogError.
    """
    folder = folder.absolute()
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise OncelogError(
                f"{folder} is not empty; move what is in it away, or name another folder"
            )
        make_private(folder)
        inner = folder / RESTORING
        try:
            inner.mkdir(0o700)
            found = _unpack(source, inner)
            _go_on(inner)
            for path in sorted(inner.iterdir()):
                path.rename(folder / path.name)
        finally:
            shutil.rmtree(inner, ignore_errors=True)
        return found
    except OSError as error:
        raise OncelogError(f"cannot restore {source} into {folder}: {error}") from error


# ------------------------------------------------------------------------------------------------ what is backed up


def _kind_of(folder: Path) -> str:
    if (folder / CLUSTER_FILE).exists():
        return CLUSTER
    if (folder / SQLITE).exists() or (folder / POSTGRES).is_dir():
        return UP
    raise OncelogError(
        f"{folder} holds neither an `oncelog up` nor an `oncelog cluster`; name what --data or --folder was given"
    )


def _hold_stopped(stack: ExitStack, folder: Path, kind: str) -> None:
    """Lock a stopped log's folder until the stack ends, so that no process can use it meanwhile. `kind` is `up` or
    `cluster`. Raises OncelogError if a process of the log runs.
    """
    if kind == UP:
        stack.enter_context(DataFolder(folder, is_ephemeral=False))
    else:
        from oncelog_server.cluster.cluster import Cluster
        from oncelog_server.cluster.locks import whole_cluster

        stack.enter_context(whole_cluster(folder))
        if Cluster.open(folder).is_running:
            raise OncelogError(
                f"the cluster in {folder} runs, and a backup is of a stopped one:"
                f" `oncelog cluster down --folder {folder}`"
            )
    pid = _postmaster(folder / POSTGRES)
    if pid:
        raise OncelogError(f"the Postgres of {folder} still runs as process {pid}; stop it first")


def _postmaster(data: Path) -> int:
    """Return the process id of the Postgres that runs on this data; 0 if none does."""
    try:
        pid = int((data / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, 0)
    except PermissionError:
        return pid
    except (OSError, ValueError, IndexError):
        return 0
    return pid


def _write(folder: Path, kind: str, partial: Path) -> Backup:
    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    files: dict[str, _Fingerprint] = {}
    with (
        open(partial, "wb", opener=open_privately) as raw,
        tarfile.open(fileobj=raw, mode="w:gz", compresslevel=COMPRESSION) as tar,
    ):
        for path in _members(folder):
            name = path.relative_to(folder).as_posix()
            info = tar.gettarinfo(str(path), arcname=name)
            if info.isdir():
                tar.addfile(info)
                continue
            # A second name of a file is a file of its own here.
            info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
            with path.open("rb") as content:
                hashed = _Hashed(content.read)
                tar.addfile(info, hashed)
            files[name] = {"size": info.size, "sha256": hashed.hexdigest()}
        manifest: _Manifest = {
            "format": FORMAT,
            "oncelog": version("oncelog"),
            "kind": kind,
            "made_at": made_at,
            "files": files,
        }
        body = json.dumps(manifest).encode()
        info = tarfile.TarInfo(MANIFEST)
        info.size, info.mode = len(body), 0o600
        tar.addfile(info, BytesIO(body))
        tar.close()
        raw.flush()
        os.fsync(raw.fileno())
    return _described(manifest)


def _members(folder: Path) -> Iterator[Path]:
    """Yield the folders and files that a backup contains, each folder before what is in it. Sockets are left out.
    Raises OncelogError for a symbolic link, which nothing of oncelog creates.
    """
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            raise OncelogError(
                f"{path} is a link, which a backup does not follow; put the data itself there"
            )
        if path.is_dir() or path.is_file():
            yield path


class _Hashed:
    """A file of a backup that is read once, from start to end, while its SHA-256 is computed."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._hash = hashlib.sha256()

    def read(self, size: int = _CHUNK_BYTES) -> bytes:
        data = self._read(size)
        self._hash.update(data)
        return data

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _described(manifest: _Manifest) -> Backup:
    files = manifest["files"].values()
    return Backup(
        manifest["kind"],
        manifest["made_at"],
        manifest["oncelog"],
        len(files),
        sum(one["size"] for one in files),
    )


# ------------------------------------------------------------------------------------------------ what is put back


def _unpack(source: Path, folder: Path) -> Backup:
    """Unpack every file of the backup, and check each against the manifest. Raises OSError, OncelogError."""
    found: dict[str, _Fingerprint] = {}
    manifest: _Manifest | None = None
    try:
        with tarfile.open(source, "r:gz") as tar:
            for member in tar:
                if member.name == MANIFEST:
                    content = tar.extractfile(member)
                    assert content is not None, "the manifest is a file"
                    manifest = json.load(content)
                    continue
                if not (member.isdir() or member.isreg()):
                    raise ValueError(f"{member.name} is neither file nor folder")
                tar.extract(member, folder, numeric_owner=True, filter="tar")
                if member.isreg():
                    found[member.name] = _fingerprint(folder / member.name)
        if not manifest:
            raise ValueError("its end is missing")
        if manifest.get("format", FORMAT) != FORMAT:
            raise OncelogError(
                f"{source} was made by a newer oncelog, {manifest['oncelog']}; use that one"
            )
        wrong = sorted(name for name, one in manifest["files"].items() if found.get(name) != one)
        if wrong:
            raise ValueError(f"{wrong[0]} is not what was backed up")
        return _described(manifest)
    except (
        tarfile.TarError,
        gzip.BadGzipFile,
        EOFError,
        zlib.error,
        ValueError,
        KeyError,
    ) as error:
        raise OncelogError(f"{source} is no whole backup: {error}; take another one") from error


def _fingerprint(path: Path) -> _Fingerprint:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return {"size": path.stat().st_size, "sha256": digest.hexdigest()}


def _go_on(folder: Path) -> None:
    """Advance the restored cluster's counters in its database, so that it hands out only producer ids and epochs that
    no client has had.
    """
    from oncelog_controller.restored import go_on_from_backup

    with _database_of(folder) as url:
        asyncio.run(go_on_from_backup(url, DATABASE_TIMEOUT_MS))


@contextmanager
def _database_of(folder: Path) -> Iterator[str]:
    if (folder / SQLITE).exists():
        yield f"sqlite:///{folder / SQLITE}"
        return
    from oncelog_server.cluster.databases import start_postgres_server, stop_postgres_server

    process, url = start_postgres_server(folder / POSTGRES)
    try:
        yield url
    finally:
        stop_postgres_server(process)
