"""`python -m oncelog_controller.migrate`: bring the tables of the metadata database up to date, and end.

A controller does so by itself when it starts. Before an upgrade of a cluster this is done once and first, so that a
migration that fails stops the upgrade and not the controllers. The database is that of ONCELOG_CONTROLLER_DATABASE_URL.
"""

import asyncio
import sys

from oncelog.errors import OncelogError
from oncelog.process.arguments import EXIT_USED_WRONGLY, SettingsParser, WrongUse
from oncelog.process.run import EXIT_FAILED
from oncelog_controller.schema import SCHEMA_REVISION
from oncelog_controller.settings import ControllerSettings
from oncelog_controller.wiring import store_at

PROGRAM = "oncelog_controller.migrate"


def main(arguments: list[str]) -> int:
    """Migrate the metadata database. Return the exit code; an error is one line on stderr."""
    try:
        found = SettingsParser(
            PROGRAM, "Migrates the metadata database.", [ControllerSettings]
        ).read(arguments)
    except WrongUse as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return EXIT_USED_WRONGLY
    settings = found[ControllerSettings]
    assert isinstance(settings, ControllerSettings)
    try:
        shown_url = asyncio.run(_migrate(settings))
    except OncelogError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return EXIT_FAILED
    print(f"{shown_url} is at revision {SCHEMA_REVISION}")
    return 0


async def _migrate(settings: ControllerSettings) -> str:
    store = store_at(settings.database_url, settings.database_timeout_ms)
    try:
        await store.open()
    finally:
        await store.close()
    return store.shown_url


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
