"""The migrations of the controller's schema.

This is a module of its own because it imports alembic, which takes a quarter of a second: `database` seldom needs it,
and imports it while no transaction is open.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import Connection

from oncelog.errors import OncelogError


def migrate(connection: Connection, shown_url: str) -> None:
    """Migrate the database to the newest schema, in the connection's transaction.

    Raises OncelogError for a schema that is newer still.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise OncelogError(
            f"cannot migrate the metadata database {shown_url}: {error}; "
            "a newer oncelog may have written it: start that one"
        ) from error
