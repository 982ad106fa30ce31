"""`oncelog pki`: what it writes, what it says about that, and what it leaves alone."""

import datetime
import json

import pytest
from cryptography import x509
from typer.testing import CliRunner

from oncelog.security.pki import ROLES
from oncelog_server.cli import root, run


def written(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def names_in(path):
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(getattr(one, "value", one)) for one in found}


def test_every_role_and_user_stands_in_the_table(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "pki"
    done = CliRunner().invoke(root, ["pki", str(folder), "--user", "alice", "--days", "30"])
    assert done.exit_code == 0, done.output
    ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=30)
    for name in (*ROLES, "alice"):
        (line,) = [one for one in done.output.splitlines() if one.startswith(f"{name} ")]
        assert line.split() == [name, f"{name}.pem", f"{name}.key", f"{ends:%Y-%m-%d}"]
        assert (folder / f"{name}.pem").exists()
    *table, last = done.output.splitlines()
    assert max(map(len, table)) <= 80
    assert last == f"in {folder}, signed by ca.pem; who has ca.key can make such certificates"


def test_scripts_get_paths_and_ends(tmp_path):
    done = CliRunner().invoke(root, ["-o", "json", "pki", str(tmp_path)])
    found = json.loads(done.output)
    assert [one["name"] for one in found] == list(ROLES)
    assert found[0]["certificate"] == str(tmp_path / "controller.pem")
    ends = datetime.datetime.fromisoformat(found[0]["ends"])
    assert 364 <= (ends - datetime.datetime.now(datetime.UTC)).days <= 365


def test_hosts_are_names_of_every_role(tmp_path):
    hosts = ("--host", "log.example.org", "--host", "10.0.0.7")
    assert run(["pki", str(tmp_path), *hosts]) == 0
    for role in ROLES:
        assert {"log.example.org", "10.0.0.7"} <= names_in(tmp_path / f"{role}.pem")


def test_a_user_is_added_to_a_folder_that_exists(tmp_path, capsys):
    assert run(["pki", str(tmp_path)]) == 0
    before = written(tmp_path)
    assert run(["pki", str(tmp_path), "--user", "alice"]) == 0
    after = written(tmp_path)
    assert after.keys() - before.keys() == {"alice.pem", "alice.key"}
    assert {name: after[name] for name in before} == before
    assert run(["pki", str(tmp_path), "--user", "alice"]) == 1
    assert "alice.pem exists; --force renews it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more", [(), ("--host", "log.example.org"), ("--host", "h", "--user", "u")]
)
def test_certificates_are_not_overwritten_unless_forced(tmp_path, capsys, more):
    assert run(["pki", str(tmp_path)]) == 0
    before = written(tmp_path)
    assert run(["pki", str(tmp_path), *more]) == 1
    assert "controller.pem exists; --force renews the certificates" in capsys.readouterr().err
    assert written(tmp_path) == before
    assert run(["pki", str(tmp_path), *more, "--force"]) == 0
    after = written(tmp_path)
    assert all(after[name] == before[name] for name in ("ca.pem", "ca.key"))
    assert all(after[f"{role}.pem"] != before[f"{role}.pem"] for role in ROLES)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--user", "a/b"), "'a/b' cannot be the name of a client's certificate"),
        (("--user", "ca"), "'ca' cannot be the name of a client's certificate"),
        (("--host", "ä"), "'ä' is no host name or address"),
    ],
)
def test_a_wrong_name_is_told(tmp_path, capsys, arguments, said):
    assert run(["pki", str(tmp_path), *arguments]) == 1
    assert said in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(["pki", str(tmp_path / "file" / "pki")]) == 1
    assert f"cannot make the folder {tmp_path / 'file' / 'pki'}" in capsys.readouterr().err
