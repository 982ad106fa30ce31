"""What every mechanism shares: its errors, and values that hide secrets."""

import pytest

from oncelog.security.sasl import SaslAuthenticationError, ScramCredential
from oncelog.security.scram import ScramServer


@pytest.mark.parametrize(
    ("is_reauthentication", "during"), [(False, "authentication"), (True, "re-authentication")]
)
def test_a_refused_client_reads_kafkas_words(is_reauthentication, during):
    server = ScramServer(
        "SCRAM-SHA-256",
        lambda user: None,
        unknown_salt=lambda user: (b"salt", 4096),
        is_reauthentication=is_reauthentication,
    )
    with pytest.raises(SaslAuthenticationError) as refused:
        server.evaluate(b"\xff")
    assert str(refused.value) == (
        f"Authentication failed during {during} due to invalid credentials "
        "with SASL mechanism SCRAM-SHA-256"
    )
    assert refused.value.reason == "a message is not ASCII"
    assert SaslAuthenticationError("no user name").reason == "no user name"


def test_a_printed_credential_shows_no_secret():
    credential = ScramCredential(b"salt!", b"stored!", b"server!", 4096)
    assert repr(credential) == "ScramCredential(iterations=4096)"
