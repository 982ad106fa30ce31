"""The development CA: who is named in which certificate, and what is never overwritten."""

import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from oncelog.errors import OncelogError
from oncelog.security.pki import ROLES, make_client_certificate, make_development_pki
from oncelog.security.ssl_principal import PrincipalRules
from oncelog.security.tls import ClientCertificates, TlsFiles, client_context, server_context


def names_of(path):
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return set(extension.value.get_values_for_type(x509.DNSName))


def test_each_role_has_its_names(tmp_path):
    made = make_development_pki(tmp_path / "pki", ("log.example.org", "10.0.0.1"))
    assert [one.name for one in made] == list(ROLES)
    for one in made:
        wanted = {f"{one.name}.oncelog.internal", "oncelog.internal", "localhost"}
        assert names_of(one.certificate) == wanted | {"log.example.org"}


def test_a_users_certificate_proves_no_server(tmp_path):
    gateway = make_development_pki(tmp_path)[-1]
    user = make_client_certificate(tmp_path, "log.example.org")
    for made, proves_a_server in ((gateway, True), (user, False)):
        found = x509.load_pem_x509_certificate(made.certificate.read_bytes())
        usages = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert (ExtendedKeyUsageOID.SERVER_AUTH in usages) is proves_a_server
        assert ExtendedKeyUsageOID.CLIENT_AUTH in usages


def test_files_are_their_owners_only(tmp_path):
    folder = tmp_path / "pki"
    make_development_pki(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_certificates_serve_tls_and_name_clients(tmp_path):
    make_development_pki(tmp_path)
    alice = make_client_certificate(tmp_path, "alice")
    files = TlsFiles(
        tmp_path / "listener.pem", tmp_path / "listener.key", None, tmp_path / "ca.pem"
    )
    server_context(files, ClientCertificates.REQUIRED)
    client_context(TlsFiles(alice.certificate, alice.key, None, tmp_path / "ca.pem"))
    der = x509.load_pem_x509_certificate(alice.certificate.read_bytes())
    rules = PrincipalRules("RULE:^.*CN=([^,]+).*$/$1/L,DEFAULT")
    assert str(rules.principal_of(der.public_bytes(Encoding.DER))) == "User:alice"


@pytest.mark.parametrize("user", ["", "storage", "ca", "a/b", "..", "a\nb", "a" * 65])
def test_a_name_that_is_no_users_is_refused(tmp_path, user):
    with pytest.raises(OncelogError, match="cannot be the name"):
        make_client_certificate(tmp_path, user)


def test_half_a_ca_is_refused(tmp_path):
    make_development_pki(tmp_path)
    (tmp_path / "ca.key").unlink()
    with pytest.raises(OncelogError, match=r"one of ca\.pem and ca\.key"):
        make_client_certificate(tmp_path, "alice")


def test_a_ca_whose_key_signs_no_hash_is_refused(tmp_path):
    make_development_pki(tmp_path)
    other = ed25519.Ed25519PrivateKey.generate()
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "ca.key").write_bytes(pem)
    with pytest.raises(OncelogError, match=r"ca\.key is of the type Ed25519PrivateKey"):
        make_client_certificate(tmp_path, "alice")


def test_a_host_that_is_none_is_named(tmp_path):
    with pytest.raises(OncelogError, match="'ä'"):
        make_development_pki(tmp_path, ("ä",))
