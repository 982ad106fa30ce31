"""Starts a process of `oncelog cluster` again, by its pid file.

    VERIFY_PID_FILE=FOLDER/storage-1.pid python -m scripts.verdicts.cluster_node CLUSTER_FOLDER

It does what `oncelog cluster restart NAME` does, and writes the new process id. That is the `--restart` of
`oncelog verify` for a cluster.
"""

import os
import sys
from pathlib import Path

from scripts.verdicts.node import PID_FILE_VARIABLE, write_pid

from oncelog.errors import OncelogError
from oncelog_server.cluster.cluster import Cluster


def write_pid_file(cluster: Cluster, pid_file: Path) -> None:
    """Write the process id of the member that has the pid file's name. Raises OncelogError where it does not run."""
    ref = cluster.process(pid_file.stem)
    if ref is None:
        raise OncelogError(f"{pid_file.stem} of the cluster does not run")
    write_pid(pid_file, ref)


def main() -> int:
    pid_file = Path(os.environ[PID_FILE_VARIABLE])
    try:
        cluster = Cluster.open(Path(sys.argv[1]))
        cluster.restart(pid_file.stem)
        write_pid_file(cluster, pid_file)
    except OncelogError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
