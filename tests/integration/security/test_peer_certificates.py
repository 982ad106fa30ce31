"""A stream between processes ends with the certificate that opened it."""

import asyncio
import shutil
import time
from contextlib import asynccontextmanager

import pytest
from tests.integration.security.test_mutual_tls import (
    DEADLINE_S,
    HOST,
    Answers,
    identity,
    limits,
    session_to,
)

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.rpc import session_server
from oncelog.rpc.channel import open_channel
from oncelog.rpc.contract import CONTROLLER, SERVICES
from oncelog.rpc.controller_stub import ControllerStreams
from oncelog.rpc.server import RpcServer
from oncelog.rpc.sessions import PeerUnavailable
from oncelog.security.pki import make_certificate, make_development_pki

DESCRIBE = SERVICES[CONTROLLER].methods["DescribeController"]
DAY_S = 86_400
HOSTS = ("gateway.oncelog.internal", "oncelog.internal")


class Watched(Answers):
    """Its metadata stream lasts."""

    def __init__(self):
        super().__init__(SERVICES[CONTROLLER].methods.values())

    async def WatchMetadata(self, request, context):  # noqa: N802
        yield pb.MetadataUpdate(metadata_offset=1)
        await asyncio.Event().wait()


@pytest.fixture
def pki(tmp_path):
    folder = tmp_path / "pki"
    make_development_pki(folder)
    return folder


class Silent(Watched):
    """It answers no call."""

    async def DescribeController(self, request, context):  # noqa: N802
        await asyncio.Event().wait()


@asynccontextmanager
async def controller(folder, servicer=None):
    server = RpcServer(HOST, 0, limits(folder, "controller"))
    server.served.add(CONTROLLER, servicer or Watched())
    await server.start()
    try:
        yield f"{HOST}:{server.port}"
    finally:
        await server.stop(0)


async def describe(session):
    await session.call(DESCRIBE.path, lambda: b"", DEADLINE_S)


async def is_another_stream(session, before, within_s=DEADLINE_S):
    """Whether calls that follow each other come over another stream. One that is refused meanwhile had no effect."""
    ends_s = time.time() + within_s
    while time.time() < ends_s:
        try:
            await describe(session)
        except PeerUnavailable as refused:
            if refused.was_sent:
                raise
        if session._stream is not before:
            return True
    return False


async def first_failure(session, until_s):
    """Of calls that follow each other until then; None: all were answered."""
    while time.time() < until_s:
        try:
            await describe(session)
        except PeerUnavailable as error:
            return error
        await asyncio.sleep(0.02)
    return None


async def test_an_expired_certificate_ends_its_session(pki):
    made = make_certificate(pki, "gateway", HOSTS, days=4 / DAY_S)
    expires_s = made.ends.timestamp()
    async with controller(pki) as address, session_to(address, limits(pki, "gateway")) as session:
        failed = await first_failure(session, expires_s + DEADLINE_S)
        assert failed is not None
        assert not failed.was_sent
        assert expires_s - 0.1 <= time.time()
        await asyncio.sleep(1)
        with pytest.raises(PeerUnavailable):  # It does not open another one.
            await describe(session)


async def test_a_call_without_an_end_holds_no_expired_stream(pki, monkeypatch):
    monkeypatch.setattr(session_server, "DRAINED_WITHIN_S", 0.5)
    made = make_certificate(pki, "gateway", HOSTS, days=4 / DAY_S)
    async with (
        controller(pki, Silent()) as address,
        session_to(address, limits(pki, "gateway")) as session,
    ):
        with pytest.raises(PeerUnavailable) as ended:
            await session.call(DESCRIBE.path, lambda: b"", 4 * DEADLINE_S)
    assert ended.value.was_sent
    assert 0 <= time.time() - made.ends.timestamp() <= DEADLINE_S


async def test_a_renewed_certificate_goes_on_without_a_loss(pki):
    made = make_certificate(pki, "gateway", HOSTS, days=4 / DAY_S)
    async with controller(pki) as address, session_to(address, limits(pki, "gateway")) as session:
        await describe(session)
        make_certificate(pki, "gateway", HOSTS, days=30)
        assert await is_another_stream(session, session._stream)
        assert time.time() >= made.ends.timestamp()
        assert await first_failure(session, time.time() + 2) is None


async def test_another_ca_ends_sessions_of_the_former_one(pki):
    async with controller(pki) as address, session_to(address, limits(pki, "gateway")) as session:
        await describe(session)
        old = pki.with_name("old")
        shutil.copytree(pki, old)
        shutil.rmtree(pki)
        make_development_pki(pki)
        assert await is_another_stream(session, session._stream)
        async with session_to(address, limits(old, "gateway")) as former:
            with pytest.raises(PeerUnavailable):
                await describe(former)


async def test_a_ca_that_stays_in_the_file_ends_nothing(pki):
    async with controller(pki) as address, session_to(address, limits(pki, "gateway")) as session:
        await describe(session)
        other = pki.with_name("other")
        make_development_pki(other)
        both = (other / "ca.pem").read_bytes() + (pki / "ca.pem").read_bytes()
        (pki / "ca.pem").write_bytes(both)
        assert await first_failure(session, time.time() + 2.5) is None


async def test_an_expired_certificate_ends_a_metadata_stream(pki):
    made = make_certificate(pki, "gateway", HOSTS, days=4 / DAY_S)
    async with controller(pki) as address, open_channel(address, limits(pki, "gateway")) as channel:
        updates = ControllerStreams(address, channel).watch(pb.WatchMetadataRequest(node_id=9))
        assert (await anext(updates)).metadata_offset == 1
        with pytest.raises(PeerUnavailable, match="certificate expired at"):
            async with asyncio.timeout(made.ends.timestamp() + DEADLINE_S - time.time()):
                await anext(updates)


def test_the_ca_can_be_read(pki):
    assert identity(pki, "gateway").read_ca() == (pki / "ca.pem").read_bytes()
