"""Certificates for tests: authorities, and what they sign, in PEM files."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from oncelog.security.tls import TlsFiles


def name_of(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """A CA of its own in `folder`."""

    def __init__(self, folder: Path, name="test CA"):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name_of(name)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.pem = folder / "ca.pem"
        self.pem.write_bytes(pem_of(self._signed(self.name, self.key, is_authority=True)))

    def issue(self, name, *, ends_in=datetime.timedelta(days=1), password=None):
        """Files of a new identity for localhost; written again, they replace the former."""
        key = ec.generate_private_key(ec.SECP256R1())
        files = TlsFiles(
            certificate_chain=self.folder / f"{name}.pem",
            key=self.folder / f"{name}.key",
            authorities=self.pem,
        )
        files.certificate_chain.write_bytes(pem_of(self._signed(name_of(name), key, ends_in)))
        files.key.write_bytes(key_of(key, password))
        return files

    def certificate_of(self, subject):
        """In DER, of anybody with this name."""
        return self._signed(subject, self.key).public_bytes(serialization.Encoding.DER)

    def _signed(self, subject, key, ends_in=datetime.timedelta(days=1), is_authority=False):
        now = datetime.datetime.now(datetime.UTC)
        alternatives = [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        ]
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=2))
            .not_valid_after(now + ends_in)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .sign(self.key, hashes.SHA256())
        )


def pem_of(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_of(key, password=None):
    encryption = (
        serialization.BestAvailableEncryption(password.encode())
        if password
        else serialization.NoEncryption()
    )
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
