"""`oncelog tokens`, and other commands with a token, against a running `oncelog up` that requires a login."""

import contextlib
import json
import os

import pytest
from tests.integration.cli.commands import Commands

from oncelog_server.demo.processes import OncelogServer

ADMIN = "c" * 64


@pytest.fixture(scope="module")
def oncelog(tmp_path_factory):
    """A command with a token in its environment, and what it says."""
    folder = tmp_path_factory.mktemp("tokens")
    file = folder / "admin-token"
    file.write_text(f"{ADMIN}\n")
    environment = {
        "ONCELOG_GATEWAY_AUTHENTICATION": "required",
        "ONCELOG_GATEWAY_ADMIN_TOKEN_FILE": str(file),
    }
    with (
        OncelogServer(folder / "data", environment=environment) as server,
        contextlib.closing(Commands()) as commands,
    ):

        def call(*arguments, token="", code=0):
            addresses = {
                "ONCELOG_GATEWAY": server.gateway,
                "ONCELOG_BOOTSTRAP": server.bootstrap,
                "XDG_CONFIG_HOME": str(folder),
                **({"ONCELOG_TOKEN": token} if token else {}),
            }
            done = commands.run(arguments, {**os.environ, "COLUMNS": "200", **addresses})
            assert done.returncode == code, (arguments, done)
            return done.stdout if code == 0 else done.stderr

        call.folder = folder
        yield call


def test_a_token_is_made_used_and_revoked(oncelog):
    refused = oncelog("nodes", "list", code=1)
    assert "requires a token" in refused
    assert "oncelog tokens create NAME --role viewer" in refused
    made = oncelog("tokens", "create", "ci", "--role", "viewer", "--expires", "1h", token=ADMIN)
    token = made.strip()
    assert made == f"{token}\n"
    assert token.startswith("oncelog_")
    assert json.loads(oncelog("nodes", "list", "-o", "json", token=token))
    too_low = oncelog("tokens", "list", token=token, code=1)
    assert "needs the role admin, and token:ci has the role viewer" in too_low
    (row,) = json.loads(oncelog("tokens", "list", "-o", "json", token=ADMIN))
    assert (row["name"], row["role"], row["is_expired"]) == ("ci", "viewer", False)
    assert "already" not in oncelog("tokens", "list", token=ADMIN)
    twice = oncelog("tokens", "create", "ci", "--role", "admin", token=ADMIN, code=1)
    assert "there is a token 'ci'" in twice
    oncelog("--reason", "left", "tokens", "revoke", "ci", "--yes", token=ADMIN)
    assert "not known here, has expired, or was revoked" in oncelog(
        "nodes", "list", token=token, code=1
    )
    lines = (oncelog.folder / "data" / "audit.jsonl").read_text()
    revoked = [json.loads(one) for one in lines.splitlines() if "revoke_token" in one]
    assert [(one["caller"], one["reason"]) for one in revoked] == [("admin-token-file", "left")]
    kept = b"".join(
        path.read_bytes() for path in oncelog.folder.rglob("*") if path.is_file()
    ).replace((ADMIN + "\n").encode(), b"", 1)
    assert token.encode() not in kept
    assert ADMIN.encode() not in kept, "only its own file holds it"


def test_health_works_with_a_viewers_token(oncelog):
    token = oncelog("tokens", "create", "watch", "--role", "viewer", token=ADMIN).strip()
    assert "ok" in oncelog("health", token=token)
