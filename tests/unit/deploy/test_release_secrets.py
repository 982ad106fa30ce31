"""Passwords of a release: drawn once, in the cluster, and kept."""

import argparse

import pytest
from tests.worlds.deploy.namespace import Namespace

from oncelog_server.release_secrets import Drawn, Text, _drawn, _text, keep_passwords

DRAWN = (Drawn("log-postgres", ("password",)), Drawn("log-admin", ("token", "password")))
TEXTS = (Text("log-admin", "client.properties", 'user="admin" password="{password}";'),)


@pytest.fixture
def made():
    secrets = Namespace()
    assert keep_passwords(secrets, DRAWN, TEXTS) == ["log-postgres", "log-admin"]
    return secrets


def test_each_password_is_another_and_needs_no_escaping(made):
    found = [made["log-postgres"]["password"], made["log-admin"]["token"]]
    found.append(made["log-admin"]["password"])
    assert len(set(found)) == 3
    assert all(len(one) == 32 and one.isalnum() for one in found)


def test_a_text_has_the_password(made):
    admin = made["log-admin"]
    said = f'user="admin" password="{admin["password"].decode()}";'
    assert admin["client.properties"].decode() == said
    assert set(made["log-postgres"]) == {"password"}


def test_what_is_there_stays_and_what_is_missing_comes(made):
    """A release that is installed again, and one whose chart had fewer keys."""
    before = {name: dict(data) for name, data in made.items()}
    del made["log-admin"]["token"]
    changed = (Text("log-admin", "client.properties", "port=9093 {password}"),)
    assert keep_passwords(made, DRAWN, changed) == []
    after = made["log-admin"]
    assert made["log-postgres"] == before["log-postgres"]
    assert after["password"] == before["log-admin"]["password"]
    assert after["token"] != before["log-admin"]["token"]
    assert after["client.properties"] == b"port=9093 " + after["password"]


def test_every_secret_is_written_so_that_helm_keeps_it(made):
    """The chart of 0.2.0 had them among its objects: an upgrade deletes what is not marked."""
    made.written.clear()
    keep_passwords(made, DRAWN, TEXTS)
    assert made.written == ["log-postgres", "log-admin"]


def test_a_secret_that_somebody_else_made_first_is_taken(made):
    class Late(Namespace):
        def create(self, name, data, kind):
            self.setdefault(name, made[name])
            return super().create(name, data, kind)

    late = Late()
    assert keep_passwords(late, DRAWN, TEXTS) == []
    assert late == made


@pytest.mark.parametrize("text", ["log-postgres", "=password", "log-postgres=", "a=b,,c"])
def test_a_secret_without_a_name_or_a_key_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="SECRET=KEY,KEY"):
        _drawn(text)


@pytest.mark.parametrize("text", ["log-admin=x", "log-admin/=x", "/key=x", "log-admin/key"])
def test_a_text_without_a_place_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="SECRET/KEY=TEXT"):
        _text(text)
