"""Faults for an injector on paper, one after the other."""

import asyncio

from oncelog_robustness.fault_plan import PlannedFault


def fault(kind, target, strength=0.9):
    return PlannedFault(0, 0, kind, target, strength)


def carry_out(injector, *faults, meanwhile=lambda: None):
    async def run():
        for one in faults:
            await injector.begin(one)
            await injector.look_for_dead()
            meanwhile()
            await injector.end(one)
        await injector.look_for_dead()
        await injector.heal()

    asyncio.run(run())
    injector.close()
