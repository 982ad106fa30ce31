"""A logout that no controller received is reported again, and that report has time of its own."""

import asyncio
from types import SimpleNamespace

import pytest

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Millis
from oncelog.security.api_tokens import Role
from oncelog_gateway import access
from oncelog_gateway.access import Access, Caller
from oncelog_gateway.settings import GatewaySettings
from oncelog_gateway.time_budget import time_budget, wait_s
from oncelog_gateway.ways_in import NO_WAYS_IN

CALL_S = 30.0
NOW = Millis(1_000_000_000)


class Controller:
    """It is away at first. `waits`: how long each call may wait."""

    def __init__(self):
        self.waits = []
        self.reported = asyncio.Event()

    async def ask_controller(self, *_):
        self.waits.append(wait_s(CALL_S))
        if len(self.waits) < 2:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the controller cannot be reached")
        self.reported.set()
        return SimpleNamespace(status=SimpleNamespace(error_code=0, error_message=""))


async def test_the_budget_of_the_page_does_not_bound_the_report(monkeypatch):
    """Each try had a millisecond: with an outage of two seconds the other gateways often never learned of it."""
    monkeypatch.setattr(access, "LOGOUT_REPORTED_EVERY_S", 0.0)
    controller = Controller()
    clock = SimpleNamespace(now=lambda: NOW)
    settings = GatewaySettings(authentication="required")
    guarded = Access(settings, NO_WAYS_IN, SimpleNamespace(image=None), clock, controller)
    session = guarded.open_session(Caller("admin", Role.ADMIN, 0))
    with time_budget(call_s=0.5, all_s=0.5):
        with pytest.raises(KafkaError):
            await guarded.log_out(session)
        async with asyncio.timeout(5):
            await controller.reported.wait()
    assert controller.waits[0] <= 0.5
    assert controller.waits[1] == CALL_S
