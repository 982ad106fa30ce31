"""TLS between processes, over real connections: who gets in, what each role may call, and renewed certificates."""

import asyncio
import shutil
import ssl
from contextlib import asynccontextmanager

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from tests.integration.rpc.scripted_controller import Cluster, ScriptedController, Served

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import OncelogError
from oncelog.rpc.callers import ALLOWED, CALLER_ROLE, ROLES
from oncelog.rpc.channel import open_channel
from oncelog.rpc.contract import CONTROLLER, PEER, SERVICES
from oncelog.rpc.controller_stub import ActiveControllerStub
from oncelog.rpc.mutual_tls import MutualTls
from oncelog.rpc.probe import check
from oncelog.rpc.served import _log_once
from oncelog.rpc.server import RpcServer
from oncelog.rpc.session_client import PeerSession
from oncelog.rpc.session_pool import SessionPool
from oncelog.rpc.sessions import PeerUnavailable, SessionLimits
from oncelog.security.pki import make_client_certificate, make_development_pki

DEADLINE_S = 90
HOST = "127.0.0.2"
"""No certificate names it: addresses of processes change, and prove nothing."""
METHODS = {
    name: tuple(service.methods.values()) for name, service in SERVICES.items() if name != PEER
}


SESSION = SERVICES[PEER].methods["Session"]


class Answers:
    """A servicer whose every method answers with an empty response, once."""

    def __init__(self, methods):
        self._methods = {one.name: one for one in methods}
        self.called = []

    def __getattr__(self, name):
        method = self._methods.get(name)
        if method is None:
            raise AttributeError(name)
        empty = method.response_from_string(b"")

        async def answer(request, context):
            self.called.append(name)
            return empty

        async def stream(request, context):
            self.called.append(name)
            yield empty

        return answer if method.is_unary else stream


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pki")
    make_development_pki(folder)
    make_client_certificate(folder, "alice")
    return folder


def identity(folder, name, ca=None):
    return MutualTls(folder / f"{name}.pem", folder / f"{name}.key", ca or folder / "ca.pem")


def limits(folder, name, ca=None):
    return SessionLimits(tls=identity(folder, name, ca))


@asynccontextmanager
async def everything(tls_limits):
    """A process that serves every method there is: its address, and what was called."""
    server = RpcServer(HOST, 0, tls_limits)
    called = []
    for name, methods in METHODS.items():
        servicer = Answers(methods)
        servicer.called = called
        server.served.add(name, servicer)
    await server.start()
    try:
        yield f"{HOST}:{server.port}", called
    finally:
        await server.stop(0)


@asynccontextmanager
async def session_to(address, tls_limits):
    session = PeerSession(address, tls_limits)
    try:
        yield session
    finally:
        await session.close()


async def over_session(session, method, tries=3):
    """Whether the call was answered. Raises what is no refusal for the role."""
    try:
        await session.call(method.path, lambda: b"", DEADLINE_S)
    except PeerUnavailable as error:
        if tries > 1 and "Internal error from Core" in str(error):
            # gRPC's own: the stream was refused in the moment in which it was written to.
            return await over_session(session, method, tries - 1)
        if f"PERMISSION_DENIED: {SESSION.path}" in str(error):
            return False
        if error.was_sent or f"PERMISSION_DENIED: {method.path}" not in str(error):
            raise
        return False
    return True


async def over_plain_grpc(channel, method):
    try:
        if method.is_unary:
            await channel.unary_unary(method.path)(b"", timeout=DEADLINE_S)
        elif method.takes_stream:
            await anext(aiter(channel.stream_stream(method.path)(iter([b""]))))
        else:
            await anext(aiter(channel.unary_stream(method.path)(b"")))
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.PERMISSION_DENIED:
            raise
        return False
    return True


@pytest.mark.parametrize("role", [*ROLES, "alice"])
async def test_a_role_calls_what_the_table_gives_it_and_no_more(pki, role):
    async with (
        everything(limits(pki, "storage")) as (address, called),
        session_to(address, limits(pki, role)) as session,
    ):
        channel = open_channel(address, limits(pki, role))
        expected = []
        for method in (one for methods in METHODS.values() for one in methods):
            is_allowed = role in ALLOWED[method.path]
            assert await over_plain_grpc(channel, method) is is_allowed, method.path
            expected += [method.name] * is_allowed
            if method.is_unary:
                assert await over_session(session, method) is is_allowed, method.path
                expected += [method.name] * is_allowed
        await channel.close()
        assert called == expected


async def test_a_wrong_role_is_told_to_the_log_once(pki, caplog):
    _log_once.cache_clear()
    produce = SERVICES["Storage"].methods["Produce"]
    async with (
        everything(limits(pki, "storage")) as (address, _),
        session_to(address, limits(pki, "marker-sender")) as session,
    ):
        for _ in range(3):
            assert not await over_session(session, produce)
    output = [one.getMessage() for one in caplog.records if produce.path in one.getMessage()]
    assert len(output) == 1
    assert "may not be called by marker-sender" in output[0]


async def test_a_certificate_without_a_role_opens_no_session(pki):
    async with (
        everything(limits(pki, "storage")) as (address, called),
        session_to(address, limits(pki, "alice")) as session,
    ):
        with pytest.raises(PeerUnavailable) as refused:
            await session.call(SERVICES["Storage"].methods["Produce"].path, lambda: b"", DEADLINE_S)
        assert f"{SESSION.path} may not be called by a certificate without a role" in str(
            refused.value
        )
        assert called == []


@pytest.mark.parametrize("kind", [x509.UniformResourceIdentifier, x509.RFC822Name])
async def test_a_name_of_another_kind_than_a_hosts_is_no_role(pki, tmp_path, kind):
    """The listener takes such a certificate for a client's, so it must open nothing here."""
    authority = x509.load_pem_x509_certificate((pki / "ca.pem").read_bytes())
    signer = load_pem_private_key((pki / "ca.key").read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    alternative = x509.SubjectAlternativeName([kind("storage.oncelog.internal")])
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(authority.not_valid_before_utc)
        .not_valid_after(authority.not_valid_after_utc)
        .add_extension(alternative, critical=True)
        .sign(signer, hashes.SHA256())
    )
    (tmp_path / "mallory.pem").write_bytes(made.public_bytes(Encoding.PEM))
    (tmp_path / "mallory.key").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    mallory = limits(tmp_path, "mallory", pki / "ca.pem")
    replica_fetch = SERVICES["Storage"].methods["ReplicaFetch"]
    async with (
        everything(limits(pki, "storage")) as (address, called),
        session_to(address, mallory) as session,
    ):
        channel = open_channel(address, mallory)
        assert not await over_session(session, replica_fetch)
        assert not await over_plain_grpc(channel, replica_fetch)
        await channel.close()
        assert called == []


class WhoCalls:
    """Keeps the role that it was told of each call."""

    def __init__(self):
        self.roles = []

    async def DescribeController(self, request, context):  # noqa: N802
        self.roles.append(CALLER_ROLE.get())
        return pb.DescribeControllerResponse()

    async def WatchMetadata(self, request, context):  # noqa: N802
        self.roles.append(CALLER_ROLE.get())
        yield pb.MetadataUpdate()


async def test_a_servicer_knows_the_role_of_its_caller(pki):
    servicer = WhoCalls()
    methods = SERVICES[CONTROLLER].methods
    server = RpcServer(HOST, 0, limits(pki, "controller"))
    server.served.add(CONTROLLER, servicer)
    await server.start()
    address = f"{HOST}:{server.port}"
    for role in ("gateway", "marker-sender"):
        channel = open_channel(address, limits(pki, role))
        await over_plain_grpc(channel, methods["DescribeController"])
        await over_plain_grpc(channel, methods["WatchMetadata"])
        await channel.close()
        async with session_to(address, limits(pki, role)) as session:
            await over_session(session, methods["DescribeController"])
    await server.stop(0)
    assert servicer.roles == ["gateway"] * 3 + ["marker-sender"] * 3
    assert CALLER_ROLE.get() is None


async def refused_at_the_handshake(pki, caller_limits):
    async with (
        everything(limits(pki, "controller")) as (address, called),
        session_to(address, caller_limits) as session,
    ):
        method = SERVICES[CONTROLLER].methods["WatchMetadata"]
        describe = SERVICES[CONTROLLER].methods["DescribeController"]
        with pytest.raises(PeerUnavailable) as failure:
            await session.call(describe.path, lambda: b"", DEADLINE_S)
        assert not failure.value.was_sent
        channel = open_channel(address, caller_limits)
        with pytest.raises(grpc.aio.AioRpcError) as broken:
            await anext(aiter(channel.unary_stream(method.path)(b"", timeout=DEADLINE_S)))
        assert broken.value.code() is grpc.StatusCode.UNAVAILABLE
        await channel.close()
        assert called == []


async def test_a_certificate_of_a_foreign_ca_is_refused(pki, tmp_path):
    make_development_pki(tmp_path)
    await refused_at_the_handshake(pki, limits(tmp_path, "controller", ca=pki / "ca.pem"))


async def test_an_expired_certificate_is_refused(pki, tmp_path):
    for name in ("ca.pem", "ca.key"):
        shutil.copy(pki / name, tmp_path / name)
    make_development_pki(tmp_path, days=0)
    await refused_at_the_handshake(pki, limits(tmp_path, "controller"))


async def test_a_caller_without_a_certificate_is_refused(pki):
    class Anonymous:
        def channel_credentials(self):
            return grpc.ssl_channel_credentials((pki / "ca.pem").read_bytes())

    await refused_at_the_handshake(pki, SessionLimits(tls=Anonymous()))


async def test_a_caller_in_plain_text_is_refused(pki):
    await refused_at_the_handshake(pki, SessionLimits())


async def test_a_server_with_a_clients_certificate_is_not_believed(pki):
    async with (
        everything(limits(pki, "alice")) as (address, called),
        session_to(address, limits(pki, "gateway")) as session,
    ):
        describe = SERVICES[CONTROLLER].methods["DescribeController"]
        with pytest.raises(PeerUnavailable):
            await session.call(describe.path, lambda: b"", DEADLINE_S)
        assert called == []


async def serial_shown_at(address, folder):
    """Of the certificate that a new connection sees."""
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    context.check_hostname = False
    context.load_cert_chain(folder / "gateway.pem", folder / "gateway.key")
    host, _, port = address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    serial = writer.get_extra_info("peercert")["serialNumber"]
    writer.close()
    return serial


async def test_renewed_certificates_reach_new_connections(pki, tmp_path):
    folder = tmp_path / "own"
    shutil.copytree(pki, folder)
    describe = SERVICES[CONTROLLER].methods["DescribeController"]
    async with (
        everything(limits(folder, "storage")) as (address, _),
        session_to(address, limits(folder, "gateway")) as session,
    ):
        assert await over_session(session, describe)
        first = await serial_shown_at(address, folder)
        make_development_pki(folder, force=True)
        assert await serial_shown_at(address, folder) != first
        assert await over_session(session, describe)
        async with session_to(address, limits(folder, "gateway")) as another:
            assert await over_session(another, describe)
        # Half written files are not taken; the former certificate serves on.
        second = await serial_shown_at(address, folder)
        (folder / "storage.pem").rename(folder / "away.pem")
        assert await serial_shown_at(address, folder) == second
        assert session.calls_in_flight == 0


async def test_a_node_outlives_files_that_are_away_for_a_moment(pki, tmp_path):
    folder = tmp_path / "own"
    shutil.copytree(pki, folder)
    controller = ScriptedController(Cluster(), 1)
    async with Served(controller, CONTROLLER, limits(pki, "controller")) as served:
        pool = SessionPool(limits(folder, "gateway"))
        stub = ActiveControllerStub([served.address], pool)
        await stub.find()
        (folder / "gateway.key").rename(folder / "away.key")
        with pytest.raises(PeerUnavailable, match=r"cannot read .*gateway\.key"):
            async with stub.connection():
                pass
        (folder / "away.key").rename(folder / "gateway.key")
        async with stub.connection() as streams:
            update = await anext(streams.watch(pb.WatchMetadataRequest(from_metadata_offset=-1)))
        assert update.snapshot.cluster_id == "scripted"
        await pool.close()


async def test_the_health_check_shows_the_certificate_of_its_process(pki, monkeypatch):
    for name, file in (("CERTIFICATE", "storage.pem"), ("KEY", "storage.key"), ("CA", "ca.pem")):
        monkeypatch.setenv(f"ONCELOG_NODE_TLS_{name}_FILE", str(pki / file))
    async with everything(limits(pki, "storage")) as (address, _):
        assert await asyncio.to_thread(check, address, "liveness", DEADLINE_S) == (True, "SERVING")
        monkeypatch.delenv("ONCELOG_NODE_TLS_CA_FILE")
        is_serving, said = await asyncio.to_thread(check, address, "liveness", DEADLINE_S)
        assert (is_serving, "UNAVAILABLE" in said) == (False, True)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(OncelogError, match=r"storage\.pem.*oncelog pki"):
        identity(tmp_path, "storage").server_credentials()
