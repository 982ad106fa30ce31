"""The simulated metadata database under the controller's real code: its time, its faults, and killed controllers."""

from tests.simulation.small_world import in_small_world

from oncelog_controller.database import Database
from oncelog_controller.lease import Lease

LEASE_MS = 3000


async def lease_of(small, controller_id):
    database = Database(small.database.url, 5000)
    await database.open()
    return Lease(database, controller_id, f"controller-{controller_id}:1", LEASE_MS)


def test_time_in_the_database_is_the_true_time_of_the_simulation():
    async def story(small):
        import asyncio

        process = small.world.new_process("controller-1")
        process.clock_skew_ms = 999_999

        async def hold():
            lease = await lease_of(small, 1)
            taken = await lease.take(await lease.read())
            await asyncio.sleep(1)
            seen = await lease.read()
            await asyncio.sleep(3)
            return taken.controller_epoch, seen.remaining_ms, (await lease.read()).remaining_ms

        return await process.spawn(hold(), "hold")

    epoch, after_one_second, after_four = in_small_world(1, story)
    assert (epoch, after_four) == (1, 0)
    assert 1900 < after_one_second <= 2000
