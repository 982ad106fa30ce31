"""`python -m oncelog_controller.restored`: say that this metadata database was put back from a backup, and end.

Ids and epochs that were given out after the backup are missing in it, and some may still be in use: a running producer
has its producer id, a client knows leader epochs. So all of them are raised further than they can have come.

It is done once after each restore, while no controller runs. The database is that of ONCELOG_CONTROLLER_DATABASE_URL.
"""

import asyncio
import sys
import uuid
from typing import Final

from oncelog.errors import OncelogError
from oncelog.ids import Offset
from oncelog.journal import AppendFailed
from oncelog.process.arguments import EXIT_USED_WRONGLY, SettingsParser, WrongUse
from oncelog.process.run import EXIT_FAILED
from oncelog_controller.core.image import ClusterImage
from oncelog_controller.core.records import (
    ControllerClaimed,
    MetadataRecord,
    MetadataRestored,
    ProducerIdsAllocated,
)
from oncelog_controller.metadata_store import NOBODY
from oncelog_controller.settings import ControllerSettings
from oncelog_controller.wiring import store_at

PROGRAM = "oncelog_controller.restored"
PRODUCER_IDS: Final = 2**40
"""The number of producer ids that a restore passes over. Some eight million restores use all ids up."""
EPOCHS: Final = 100_000
"""The number of epochs that a restore passes over. Some twenty thousand restores use a partition's epochs up."""


async def go_on_from_backup(database_url: str, timeout_ms: int) -> int:
    """Append to the metadata journal of a restored database the records that raise all producer ids and epochs.

    Without them, ids that were given out after the backup would be given out again. Returns the next producer id.
    Raises OncelogError.
    """
    store = store_at(database_url, timeout_ms)
    try:
        await store.open()
        lease = await store.lease(NOBODY, "", 0).read()
        journal = store.journal(None)
        image = ClusterImage()
        async for offset, record in journal.replay():
            image.apply(Offset(offset), record)
        if not image.cluster_id:
            raise OncelogError(
                f"{store.shown_url} holds no cluster: restore the backup into it first"
            )
        block = ProducerIdsAllocated(image.next_producer_id, PRODUCER_IDS, -1, -1)
        claim = ControllerClaimed(
            image.controller,
            max(image.controller_epoch, lease.controller_epoch) + 1,
            uuid.uuid4().hex,
        )
        records: list[MetadataRecord] = [claim, block, MetadataRestored(EPOCHS)]
        await journal.append(records)
        return image.next_producer_id + PRODUCER_IDS
    except AppendFailed as error:
        raise OncelogError(
            f"cannot write to {store.shown_url}: {error}; stop every controller and try again"
        ) from error
    finally:
        await store.close()


def main(arguments: list[str]) -> int:
    """Raise ids and epochs in a database that was restored from a backup. Return the exit code.

    An error is one line on stderr.
    """
    try:
        found = SettingsParser(PROGRAM, "Goes on from a backup.", [ControllerSettings]).read(
            arguments
        )
    except WrongUse as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return EXIT_USED_WRONGLY
    settings = found[ControllerSettings]
    assert isinstance(settings, ControllerSettings)
    try:
        next_producer_id = asyncio.run(
            go_on_from_backup(settings.database_url, settings.database_timeout_ms)
        )
    except OncelogError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return EXIT_FAILED
    print(f"the cluster may start; producer ids go on at {next_producer_id}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
