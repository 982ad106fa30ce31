"""TLS listeners: real clients with and without certificates, foreign authorities, certificates that change."""

import asyncio
import ssl

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from tests.certificates import Authority
from tests.integration.listener.secured_log import NAME_OF_CERTIFICATE, produced, secured_log, tls
from tests.worlds.listener.wire_client import WireClient

from oncelog.protocol.versions import METADATA
from oncelog.security.pki import make_client_certificate, make_development_pki


def trusting(authority_file, files=None):
    """A client's context, with a certificate of its own or without."""
    context = ssl.create_default_context(cafile=authority_file)
    if files is not None:
        context.load_cert_chain(*files)
    return context


def over_tls(secured, authority, user=None):
    config = {
        "bootstrap.servers": secured.outside,
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.pem),
    }
    if user is not None:
        files = authority.issue(user)
        config["ssl.certificate.location"] = str(files.certificate_chain)
        config["ssl.key.location"] = str(files.key)
    return config


def test_a_certificate_says_who_a_client_is(tmp_path, authority):
    with secured_log(
        tmp_path, **tls(authority, ssl_client_auth="required", **NAME_OF_CERTIFICATE)
    ) as secured:
        secured.allow("alice", ResourceType.TOPIC, "*", AclOperation.ALL)
        assert produced(over_tls(secured, authority, "alice")) is None
        assert produced(over_tls(secured, authority), timeout_s=2) is not None  # shows none


async def test_a_foreign_certificate_is_refused(tmp_path, authority, tmp_path_factory):
    foreign = Authority(tmp_path_factory.mktemp("foreign"))
    files = foreign.issue("mallory")
    settings = tls(authority, ssl_client_auth="required")
    with secured_log(tmp_path, **settings) as secured:
        context = trusting(authority.pem, (files.certificate_chain, files.key))
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await answered_over(secured, context)


async def test_a_process_of_the_cluster_is_no_client(tmp_path, caplog):
    """Its certificate is of the same CA, and opens the private calls of its role alone."""
    pki = tmp_path / "pki"
    make_development_pki(pki)
    client_of_pki = make_client_certificate(pki, "alice")
    settings = {
        "listener_security_protocol_map": "OUTSIDE:SSL",
        "ssl_certificate_file": str(pki / "listener.pem"),
        "ssl_key_file": str(pki / "listener.key"),
        "ssl_ca_file": str(pki / "ca.pem"),
        "ssl_client_auth": "required",
    }
    caplog.set_level("INFO", "oncelog.listener")
    with secured_log(tmp_path, **settings) as secured:
        for name in ("gateway", "storage", "listener"):
            context = trusting(pki / "ca.pem", (pki / f"{name}.pem", pki / f"{name}.key"))
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await answered_over(secured, context)
        context = trusting(pki / "ca.pem", (client_of_pki.certificate, client_of_pki.key))
        assert await answered_over(secured, context)
    refused = [text for text in caplog.messages if "it is a process's and no client's" in text]
    assert len(refused) == 3
    assert "storage.oncelog.internal" in refused[1]


async def test_tls_1_2_can_be_turned_off(tmp_path, authority):
    settings = tls(authority, ssl_enabled_protocols="TLSv1.3")
    with secured_log(tmp_path, **settings) as secured:
        context = trusting(authority.pem)
        assert await answered_over(secured, context)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(OSError):
            await answered_over(secured, context)


async def answered_over(secured, context):
    return await WireClient(*await opened(secured, context)).call(METADATA, 1, topics=())


def opened(secured, context):
    host, _, port = secured.outside.rpartition(":")
    return asyncio.open_connection(host, int(port), ssl=context, server_hostname="localhost")


async def test_a_new_certificate_is_shown_to_new_connections(tmp_path, authority):
    settings = tls(authority)
    with secured_log(tmp_path, **settings) as secured:
        context = trusting(authority.pem)
        old = WireClient(*await opened(secured, context))
        shown = old.writer.get_extra_info("peercert")["serialNumber"]
        authority.issue("listener")
        await asyncio.sleep(1.1)
        new = WireClient(*await opened(secured, context))
        assert new.writer.get_extra_info("peercert")["serialNumber"] != shown
        for wire in (old, new):
            assert (await wire.call(METADATA, 1, topics=())).brokers


async def test_plain_bytes_on_a_tls_port_end_the_connection(tmp_path, authority):
    with secured_log(tmp_path, **tls(authority)) as secured:
        wire = await secured.wire()
        wire.send(METADATA, 1, topics=())
        while await asyncio.wait_for(wire.reader.read(100), 30):
            pass  # a TLS alert, and then the end
        good = trusting(authority.pem)
        again = WireClient(*await opened(secured, good))
        assert (await again.call(METADATA, 1, topics=())).brokers


async def test_who_says_nothing_leaves_no_line_and_no_connection(tmp_path, authority, caplog):
    """So other listeners watch this one, and load balancers look whether it is there."""
    caplog.set_level("INFO", "oncelog.listener")
    settings = tls(authority, connections_max=4, authentication_timeout_ms=500)
    with secured_log(tmp_path, **settings) as secured:
        host, _, port = secured.outside.rpartition(":")
        for _ in range(10):
            _, gone = await asyncio.open_connection(host, int(port))
            gone.close()
        waiting, _ = await asyncio.open_connection(host, int(port))
        assert await asyncio.wait_for(waiting.read(1), 30) == b""
        context = trusting(authority.pem)
        assert (await answered_over(secured, context)).brokers
        half, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"\x16")
        await asyncio.wait_for(half.read(1), 30)
    assert sum("no TLS" in text for text in caplog.messages) == 1


async def test_failed_handshakes_leave_no_connection_behind(tmp_path, authority):
    """Ten places, and thirty who never finish a handshake."""
    files = authority.issue("nobody")
    rules = {"ssl_principal_mapping_rules": "RULE:^CN=alice.*$/alice/"}
    settings = tls(authority, ssl_client_auth="requested", connections_max=10, **rules)
    with secured_log(tmp_path, **settings) as secured:
        host, _, port = secured.outside.rpartition(":")
        refused = trusting(authority.pem, (files.certificate_chain, files.key))
        for _ in range(15):
            _, garbage = await asyncio.open_connection(host, int(port))
            garbage.write(b"GET / HTTP/1.1\r\n\r\n")
            await garbage.drain()
            garbage.close()
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await answered_over(secured, refused)
        good = trusting(authority.pem)
        assert await answered_over(secured, good)


async def test_half_a_handshake_ends_in_time(tmp_path, authority):
    settings = tls(authority, authentication_timeout_ms="500")
    with secured_log(tmp_path, **settings) as secured:
        wire = await secured.wire()
        wire.writer.write(b"\x16\x03\x01")
        assert await wire.is_closed_by_peer()
