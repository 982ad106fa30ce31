"""What every mechanism shares: its errors, and values that hide secrets."""

import pytest

from oncelog.security.sasl import (
    SaslAuthenticationError,
    ScramCredential,
    invalid_credentials,
)


@pytest.mark.parametrize(
    ("is_reauthentication", "during"), [(False, "authentication"), (True, "re-authentication")]
)
def test_a_refused_client_reads_kafkas_words(is_reauthentication, during):
    error = invalid_credentials(
        "SCRAM-SHA-256", "no user named mallory", is_reauthentication=is_reauthentication
    )
    assert str(error) == (
        f"Authentication failed during {during} due to invalid credentials "
        "with SASL mechanism SCRAM-SHA-256"
    )
    assert error.reason == "no user named mallory"
    assert SaslAuthenticationError("no user name").reason == "no user name"


def test_a_printed_credential_shows_no_secret():
    credential = ScramCredential(b"salt!", b"stored!", b"server!", 4096)
    assert repr(credential) == "ScramCredential(iterations=4096)"
