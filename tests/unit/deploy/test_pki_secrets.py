"""Certificates of a release: made once, kept while they last, renewed when they do not."""

import argparse

import pytest
from cryptography import x509
from tests.worlds.deploy.namespace import Namespace

from oncelog.errors import OncelogError
from oncelog_server.pki_secrets import Wanted, keep_certificates, parsed_identity

PARTS = (
    Wanted("storage", ("storage.oncelog.internal", "oncelog.internal")),
    Wanted("redis", ("log-redis.prod.svc",)),
)


@pytest.fixture
def made():
    secrets = Namespace()
    assert keep_certificates(secrets, "log", PARTS, 365) == [
        "log-ca", "log-storage-tls", "log-redis-tls"
    ]  # fmt: skip
    return secrets


def certificate(secrets, name):
    return x509.load_pem_x509_certificate(secrets[f"log-{name}-tls"]["tls.crt"])


def test_each_part_has_a_certificate_of_one_ca_with_its_names(made):
    authority = x509.load_pem_x509_certificate(made["log-ca"]["tls.crt"])
    for part in PARTS:
        found = certificate(made, part.name)
        found.verify_directly_issued_by(authority)
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert set(part.hosts) <= set(names.get_values_for_type(x509.DNSName))
        assert made[f"log-{part.name}-tls"]["ca.crt"] == made["log-ca"]["tls.crt"]
        assert b"PRIVATE KEY" in made[f"log-{part.name}-tls"]["tls.key"]


def test_the_key_of_the_ca_is_in_no_other_secret(made):
    key = made["log-ca"]["tls.key"]
    assert [name for name, data in made.items() if key in data.values()] == ["log-ca"]


def test_what_lasts_stays(made):
    before = dict(made)
    assert keep_certificates(made, "log", PARTS, 365) == []
    assert made == before


def test_a_certificate_in_its_last_third_is_renewed(made):
    # Of 365 days, 365 are left; of 2000 that is less than a third.
    ca, serial = dict(made["log-ca"]), certificate(made, "redis").serial_number
    assert keep_certificates(made, "log", PARTS, 2000) == ["log-storage-tls", "log-redis-tls"]
    assert made["log-ca"] == ca
    assert certificate(made, "redis").serial_number != serial


def test_a_new_name_renews_that_certificate_alone(made):
    more = (PARTS[0], PARTS[1]._replace(hosts=(*PARTS[1].hosts, "log-redis")))
    assert keep_certificates(made, "log", more, 365) == ["log-redis-tls"]


def test_certificates_of_another_ca_are_renewed(made):
    del made["log-ca"]
    assert keep_certificates(made, "log", PARTS, 365) == [
        "log-ca", "log-storage-tls", "log-redis-tls"
    ]  # fmt: skip


def test_a_secret_that_holds_nonsense_is_written_anew(made):
    made["log-redis-tls"] = {"tls.crt": b"?"}
    assert keep_certificates(made, "log", PARTS, 365) == ["log-redis-tls"]


def test_a_ca_that_somebody_else_made_first_is_taken(made):
    class Late(Namespace):
        def read(self, name):
            # The other Job makes it between our look and our writing.
            found = super().read(name)
            if name == "log-ca" and found is None:
                self["log-ca"] = made["log-ca"]
            return found

    late = Late()
    assert keep_certificates(late, "log", PARTS, 365) == ["log-storage-tls", "log-redis-tls"]
    assert late["log-ca"] == made["log-ca"]


def test_half_a_ca_is_named(made):
    del made["log-ca"]["tls.key"]
    with pytest.raises(OncelogError, match=r"the Secret log-ca has no tls\.key"):
        keep_certificates(made, "log", PARTS, 365)


@pytest.mark.parametrize("text", ["storage", "=host", "storage=", "storage=a,,b"])
def test_anparsed_identity_without_a_name_or_a_host_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="NAME=HOST,HOST"):
        parsed_identity(text)
