"""The state file of a cluster's folder: written as a whole after each change, read by every later command."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from oncelog.errors import OncelogError
from oncelog_server.cluster.os_process import ProcessRef
from oncelog_server.cluster.plan import Member
from oncelog_server.data_folder import open_privately

STATE_FILE = "cluster.json"
VERSION = 1


@dataclass(slots=True)
class ClusterState:
    """The content of the state file: the plan of the cluster, and the process that each member has now."""

    members: tuple[Member, ...]
    environment: dict[str, str] = field(default_factory=dict)
    """Environment variables for every process."""
    environments: dict[str, dict[str, str]] = field(default_factory=dict)
    """Environment variables for one process, by its name; they win over those for every process."""
    is_secure: bool = False
    """True if processes have certificates and clients log in (`security.py`). A folder that was secured stays so."""
    postgres_url: str = ""
    running: dict[str, ProcessRef] = field(default_factory=dict)
    """Processes by name, `postgres` and `redis` among them. A process stays here until it is stopped, dead or not."""

    def write(self, folder: Path) -> None:
        content = {"version": VERSION, **asdict(self)}
        partial = folder / f"{STATE_FILE}.partial"
        with open(partial, "w", opener=open_privately) as file:
            json.dump(content, file, indent=2)
        partial.replace(folder / STATE_FILE)


def read_state(folder: Path) -> ClusterState | None:
    """Return the state from a cluster's folder; None when no cluster was started there. Raises OncelogError for a file
    that oncelog did not write.
    """
    try:
        content = json.loads((folder / STATE_FILE).read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise OncelogError(
            f"{folder / STATE_FILE} cannot be read: {error}; choose another folder with --folder"
        ) from error
    if content.pop("version", None) != VERSION:
        raise OncelogError(f"{folder / STATE_FILE} was written by another version of oncelog")
    content.pop("redis_port", None)  # Of a cluster that was planned when its Redis had one.
    content["members"] = tuple(Member(**member) for member in content["members"])
    content["running"] = {name: ProcessRef(**ref) for name, ref in content["running"].items()}
    return ClusterState(**content)
