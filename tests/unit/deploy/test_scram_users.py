"""The users of a secured release come from mounted files, and log in with what the controllers are told."""

import pytest

from oncelog.errors import OncelogError
from oncelog.security.scram import ITERATIONS_MIN
from oncelog_server.scram_users import passwords, requests_of


def test_each_file_is_a_user_and_the_mounts_own_folders_are_none(tmp_path):
    # As Kubernetes mounts a Secret: links through `..data`.
    real = tmp_path / "..2026_11_26"
    real.mkdir()
    (real / "alice").write_text("s3cret\n")
    (tmp_path / "..data").symlink_to(real.name)
    (tmp_path / "alice").symlink_to("..data/alice")
    assert passwords(tmp_path) == {"alice": "s3cret"}


def test_an_empty_password_is_refused_by_name(tmp_path):
    (tmp_path / "bob").write_text("")
    with pytest.raises(OncelogError, match="password of user bob"):
        passwords(tmp_path)


def test_a_user_stands_once_in_a_request_and_no_password_does():
    users = {"alice": "s3cret", "bob": "other"}
    requests = list(requests_of(users))
    assert [[one.mechanism for one in request.credentials] for request in requests] == [
        [1, 1],
        [2, 2],
    ]
    for request, key_bytes in zip(requests, (32, 64), strict=True):
        assert [one.user for one in request.credentials] == list(users)
        assert b"s3cret" not in request.SerializeToString()
        for one in request.credentials:
            assert one.iterations == ITERATIONS_MIN
            assert len(one.stored_key) == key_bytes
        first, second = request.credentials
        assert first.salt != second.salt
