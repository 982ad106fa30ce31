"""Which certificates of a caller would open a connection now: every one from the caller's to the CA must be good."""

import datetime
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from tests.certificates import name_of

from oncelog.rpc.peer_certificates import PeerCertificate

HOUR_S = 3_600
EXPIRED = "expired at"
NOT_TRUSTED = "not trusted, or has expired"


def made(name, *, issuer=None, hours=3):
    """A certificate and its key; without an issuer it signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer_name, signing_key = (name, key) if issuer is None else issuer[1:]
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name_of(name))
        .issuer_name(name_of(issuer_name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=hours))
        .sign(signing_key, hashes.SHA256())
    )
    return certificate, name, key


def refusal(*, hours=(3, 3, 3), after_h=0.0, is_known=True, has_between=True):
    """`hours`: how long CA, intermediate and caller are valid."""
    authority = made("CA", hours=hours[0])
    between = made("intermediate", issuer=authority, hours=hours[1])
    caller = made("storage", issuer=between, hours=hours[2])
    chain = [caller[0], between[0]] if has_between else [caller[0]]
    trusted = [authority[0] if is_known else made("CA")[0]]
    return PeerCertificate(chain).refusal(trusted, time.time() + after_h * HOUR_S)


ROWS = [
    ("all are good", {}, ""),
    ("the caller's has expired", {"hours": (9, 9, 1), "after_h": 2}, EXPIRED),
    ("the intermediate has expired", {"hours": (9, 1, 9), "after_h": 2}, NOT_TRUSTED),
    ("the CA has expired", {"hours": (1, 9, 9), "after_h": 2}, NOT_TRUSTED),
    ("another CA of the same name", {"is_known": False}, NOT_TRUSTED),
    ("the intermediate is missing", {"has_between": False}, NOT_TRUSTED),
]


@pytest.mark.parametrize(
    ("case", "reason"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_a_callers_whole_path_must_be_good(case, reason):
    said = refusal(**case)
    assert (reason in said) if reason else (said == "")


def test_a_trusted_intermediate_is_enough():
    between = made("intermediate", issuer=made("CA"))
    caller = made("storage", issuer=between)
    assert not PeerCertificate([caller[0]]).refusal([between[0]], time.time())
