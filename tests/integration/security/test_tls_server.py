"""A TLS server on a socket: whom it refuses, and what its open connections keep when its files change."""

import asyncio
import datetime
import ssl
from contextlib import asynccontextmanager

import pytest
from tests.certificates import Authority

from oncelog.security.tls import (
    CHECK_INTERVAL_S,
    ClientCertificates,
    ReloadingContext,
    TlsFiles,
    client_context,
    server_context,
)

EXPIRED = datetime.timedelta(hours=-1)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "own", "own CA")


@pytest.fixture
def foreign(tmp_path):
    return Authority(tmp_path / "foreign", "foreign CA")


@asynccontextmanager
async def serving(current):
    """The port of a server that echoes lines; `current()` is the context of each connection, as in a listener."""

    async def echo(reader, writer):
        try:
            await writer.start_tls(current())
            while line := await reader.readline():
                writer.write(line)
                await writer.drain()
        except OSError:
            pass  # A refused handshake; the client's side tells.
        finally:
            writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def connected(port, context):
    return await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )


async def echoed(streams, line=b"hello\n"):
    reader, writer = streams
    writer.write(line)
    await writer.drain()
    return await asyncio.wait_for(reader.readline(), 30)


async def is_served(port, context):
    """With TLS 1.3 a client's handshake is over before the server has judged its certificate."""
    try:
        streams = await connected(port, context)
    except OSError:
        return False
    try:
        return await echoed(streams) == b"hello\n"
    except OSError:
        return False
    finally:
        await closed(streams)


async def closed(streams):
    streams[1].close()
    await asyncio.gather(streams[1].wait_closed(), return_exceptions=True)


def serial_of(streams):
    return streams[1].get_extra_info("peercert")["serialNumber"]


async def test_a_client_refuses_a_server_of_a_foreign_ca(authority, foreign):
    context = server_context(authority.issue("server"))
    async with serving(lambda: context) as port:
        with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
            await connected(port, client_context(TlsFiles(authorities=foreign.pem)))
        streams = await connected(port, client_context(TlsFiles(authorities=authority.pem)))
        assert await echoed(streams) == b"hello\n"
        await closed(streams)


async def test_a_client_refuses_an_expired_server(authority):
    context = server_context(authority.issue("server", ends_in=EXPIRED))
    async with serving(lambda: context) as port:
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
            await connected(port, client_context(TlsFiles(authorities=authority.pem)))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("kind", ["foreign", "expired", "none"])
async def test_a_server_refuses_a_client(authority, foreign, version, kind):
    files = {
        "foreign": TlsFiles(*foreign.issue("mallory").paths()[:2], None, authority.pem),
        "expired": authority.issue("late", ends_in=EXPIRED),
        "none": TlsFiles(authorities=authority.pem),
    }[kind]
    context = server_context(authority.issue("server"), ClientCertificates.REQUIRED)
    async with serving(lambda: context) as port:
        client = client_context(files)
        client.maximum_version = version
        assert not await is_served(port, client)
        assert await is_served(port, client_context(authority.issue("alice")))


async def test_a_new_certificate_leaves_old_connections_alone(authority):
    said = []
    files = authority.issue("server")
    reloading = ReloadingContext(files, server_context, said.append)
    client = client_context(TlsFiles(authorities=authority.pem))
    async with serving(reloading.current) as port:
        old = await connected(port, client)
        assert await echoed(old) == b"hello\n"
        authority.issue("server")
        await asyncio.sleep(CHECK_INTERVAL_S + 0.1)
        new = await connected(port, client)
        assert serial_of(new) != serial_of(old)
        assert await echoed(new) == await echoed(old) == b"hello\n"
        await closed(new)
        await closed(old)
    assert len(said) == 1
    assert said[0].startswith("TLS files reloaded: ")


async def test_a_ca_that_is_taken_away_ends_no_session(authority, foreign):
    """It is asked at the next handshake; a session that is open has been judged already."""
    served = authority.issue("server")
    trusted = authority.folder / "clients.pem"
    trusted.write_bytes(foreign.pem.read_bytes())
    files = TlsFiles(served.certificate_chain, served.key, None, trusted)
    reloading = ReloadingContext(
        files, lambda found: server_context(found, ClientCertificates.REQUIRED), [].append
    )
    identity = foreign.issue("bob")
    client = client_context(TlsFiles(identity.certificate_chain, identity.key, None, authority.pem))
    async with serving(reloading.current) as port:
        old = await connected(port, client)
        assert await echoed(old) == b"hello\n"
        trusted.write_bytes(authority.pem.read_bytes())
        await asyncio.sleep(CHECK_INTERVAL_S + 0.1)
        assert not await is_served(port, client)
        assert await echoed(old) == b"hello\n"
        await closed(old)
