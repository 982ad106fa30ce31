"""Contexts: what they allow, what a wrong file is answered with, and when they follow their files."""

import dataclasses
import shlex
import ssl
import subprocess

import pytest
from tests.certificates import Authority

from oncelog.security.tls import (
    CONTEXT_AGE_MAX_S,
    ClientCertificates,
    ReloadingContext,
    TlsFileError,
    TlsFiles,
    client_context,
    server_context,
)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "a")


@pytest.fixture
def files(authority):
    return authority.issue("listener")


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def handshake(server, client, session=None):
    """In memory. Both TLS objects when both sides agree; raises what the first side raised that does not."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost", session=session),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(sides)
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
    assert not waiting
    with pytest.raises(ssl.SSLWantReadError):
        sides[0].read()  # what TLS 1.3 sends behind the handshake: tickets, or an alert
    return sides


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("mode", list(ClientCertificates))
def test_two_sides_of_one_authority_agree(files, version, mode):
    client = client_context(files)
    client.maximum_version = {"TLSv1.2": ssl.TLSVersion.TLSv1_2}.get(
        version, ssl.TLSVersion.TLSv1_3
    )
    _, server = handshake(server_context(files, mode), client)
    assert server.version() == version
    assert (server.getpeercert(binary_form=True) is None) == (mode is ClientCertificates.NONE)


@pytest.mark.parametrize("mode", list(ClientCertificates))
def test_only_required_refuses_a_client_without_certificate(files, mode):
    client = client_context(TlsFiles(authorities=files.authorities))
    client.maximum_version = ssl.TLSVersion.TLSv1_2  # its server says so within the handshake
    if mode is ClientCertificates.REQUIRED:
        with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
            handshake(server_context(files, mode), client)
    else:
        _, server = handshake(server_context(files, mode), client)
        assert server.getpeercert(binary_form=True) is None


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
def test_older_versions_are_not_spoken(files, version):
    old = client_context(files)
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = old.maximum_version = getattr(ssl.TLSVersion, version)
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):  # so says the server
        handshake(server_context(files), old)


def test_a_listener_may_speak_tls_1_3_alone(files):
    context = server_context(files, protocols="TLSv1.3")
    client = client_context(files)
    assert handshake(context, client)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        handshake(context, client)


def test_every_cipher_has_forward_secrecy_and_authentication(files):
    ciphers = server_context(files).get_ciphers()
    assert len(ciphers) == 9  # six of TLS 1.2, three of TLS 1.3
    assert all(cipher["aead"] for cipher in ciphers)
    assert {cipher["kea"] for cipher in ciphers} == {"kx-ecdhe", "kx-any"}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_resumes_nothing_after_a_reload(authority, files, version):
    clock = Clock()
    context = ReloadingContext(files, server_context, [].append, clock)
    client = client_context(files)
    client.maximum_version = version
    first, _ = handshake(context.current(), client)
    authority.issue("listener")
    clock.now += 1
    _, second = handshake(context.current(), client, first.session)
    assert not second.session_reused


def test_a_changed_file_is_seen_after_a_second(authority, files):
    clock, said = Clock(), []
    context = ReloadingContext(files, server_context, said.append, clock)
    first = context.current()
    authority.issue("listener")
    clock.now += 0.9
    assert context.current() is first
    clock.now += 0.2
    second = context.current()
    assert second is not first
    assert said == [
        f"TLS files reloaded: {files.certificate_chain}, {files.key}, {files.authorities}"
    ]
    clock.now += 2
    assert context.current() is second


def test_half_a_change_keeps_the_former_and_is_told_once(authority, files):
    clock, said = Clock(), []
    context = ReloadingContext(files, server_context, said.append, clock)
    first, former = context.current(), files.key.read_bytes()
    new = authority.issue("listener")
    new_key = new.key.read_bytes()
    new.key.write_bytes(former)  # the certificate is new, the key is not yet
    for _ in range(3):
        clock.now += 1
        assert context.current() is first
    assert len(said) == 1
    assert "the former ones stay in use" in said[0]
    assert f"{files.key}: the key is not the one of the certificate" in said[0]
    new.key.write_bytes(new_key)
    clock.now += 1
    assert context.current() is not first
    assert said[1:] == [
        f"TLS files reloaded: {files.certificate_chain}, {files.key}, {files.authorities}"
    ]


def test_a_file_that_vanishes_and_returns_changes_nothing(files):
    clock, said = Clock(), []
    context = ReloadingContext(files, server_context, said.append, clock)
    first, content = context.current(), files.key.read_bytes()
    for _ in range(2):
        files.key.unlink()
        clock.now += 1
        assert context.current() is first
        files.key.write_bytes(content)
        clock.now += 1
        assert context.current() is first
    assert len(said) == 2
    assert "No such file" in said[0]


def test_a_context_grows_no_older_than_its_bound(files):
    clock, said = Clock(), []
    context = ReloadingContext(files, server_context, said.append, clock)
    first = context.current()
    clock.now += CONTEXT_AGE_MAX_S
    assert context.current() is not first
    assert not said


def test_one_context_for_good_serves_the_current_certificate(authority, files):
    clock = Clock()
    context = ReloadingContext(files, server_context, [].append, clock)
    front = context.fronting()
    first, _ = handshake(front, client_context(files))
    authority.issue("listener")
    clock.now += 1
    second, _ = handshake(front, client_context(files))
    assert first.getpeercert()["serialNumber"] != second.getpeercert()["serialNumber"]


def test_one_context_for_good_asks_for_no_client_certificate(files):
    def build(files):
        return server_context(files, ClientCertificates.REQUESTED)

    with pytest.raises(AssertionError, match="resumed session"):
        ReloadingContext(files, build, [].append).fronting()


def test_a_key_opens_with_the_password_of_its_file(authority, tmp_path):
    files = authority.issue("locked", password="open sesame")
    password = tmp_path / "password"
    password.write_text("open sesame\r\nanother line")
    files = dataclasses.replace(files, key_password=password)
    assert handshake(server_context(files), client_context(files))
    password.write_text("wrong\n")
    with pytest.raises(TlsFileError, match=f"is the password in {password} right") as refused:
        server_context(files)
    assert "wrong" not in str(refused.value)


def test_an_encrypted_key_does_not_ask_the_terminal(authority):
    files = authority.issue("locked", password="open sesame")
    with pytest.raises(TlsFileError, match=f"{files.key}: the key is encrypted; name the file"):
        server_context(files)


def test_key_and_certificate_may_share_a_file(files):
    both = files.certificate_chain
    both.write_bytes(both.read_bytes() + files.key.read_bytes())
    assert handshake(server_context(dataclasses.replace(files, key=None)), client_context(files))


@pytest.mark.parametrize("mode", [ClientCertificates.REQUESTED, ClientCertificates.REQUIRED])
def test_client_certificates_need_authorities(files, mode):
    with pytest.raises(TlsFileError, match=f"client certificates are {mode.value}, but no file"):
        server_context(dataclasses.replace(files, authorities=None), mode)


def test_a_listener_needs_a_certificate():
    with pytest.raises(TlsFileError, match="needs a certificate"):
        server_context(TlsFiles())


def test_a_bundle_may_have_comments_in_any_language(files):
    bundle = files.authorities
    bundle.write_text(f"Főtanúsítvány\n{bundle.read_text()}")
    assert handshake(server_context(files), client_context(files))


def test_without_authorities_those_of_the_machine_count():
    assert client_context(TlsFiles()).verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize("field", ["certificate_chain", "key", "authorities"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory; check the path"),
        (b"", "it is empty"),
        (b"hello", "it is no PEM file"),
        (b"\xfe\xed\xfe\xed\0\0\0\2", "it is a Java keystore (JKS); convert it: keytool"),
        (b"\x30\x03\x02\x01\x00", "it is DER; convert it: openssl x509"),
        (b"-----BEGIN PUBLIC KEY-----\n", "it holds only PUBLIC KEY"),
    ],
)
def test_a_wrong_file_is_named_with_the_way_out(files, field, content, said):
    path = getattr(files, field)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TlsFileError) as refused:
        server_context(files, ClientCertificates.REQUIRED)
    assert str(refused.value).startswith(f"{path}: {said}")


@pytest.mark.parametrize("field", ["certificate_chain", "authorities"])
def test_a_damaged_certificate_is_named(files, field):
    path = getattr(files, field)
    path.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(TlsFileError, match=f"{path}.* damaged"):
        server_context(files, ClientCertificates.REQUIRED)


def test_a_pkcs12_keystore_is_known_by_its_bytes(files, tmp_path):
    store = tmp_path / "store.p12"
    subprocess.run(
        shlex.split(
            f"openssl pkcs12 -export -passout pass:changeit -in {files.certificate_chain} "
            f"-inkey {files.key} -out {store}"
        ),
        check=True,
    )
    with pytest.raises(TlsFileError, match="PKCS12 keystore; convert it: openssl pkcs12 -in"):
        server_context(dataclasses.replace(files, certificate_chain=store))
