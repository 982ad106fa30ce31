"""A log that runs already, for the demo to use. A `client.properties` file names its address and login. The demo does
not kill it.
"""

import secrets
from pathlib import Path
from typing import Self

from oncelog.errors import OncelogError
from oncelog_server.cli.client_config import KafkaAddress, read_client_config


class GivenLog:
    """A log that the demo did not start. It has those methods of `OncelogServer` that a run of the demo needs."""

    def __init__(self, file: Path) -> None:
        """Read the file. Raises OncelogError for a file that cannot be read, or names no address."""
        config = read_client_config(str(file))
        if not config.servers:
            raise OncelogError(f"{file} names no log; add a line bootstrap.servers=HOST:PORT")
        self.client_config = str(file.absolute())
        self.bootstrap = KafkaAddress(config.servers, config.login)
        # Each run has a checkpoint of its own, so it is another query.
        self.sink_name = f"demo-ledger-{secrets.token_hex(4)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: the demo did not start this log, so it keeps running."""
