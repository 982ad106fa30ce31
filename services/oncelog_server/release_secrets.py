"""The Secrets that a release in Kubernetes makes itself: passwords, tokens, certificates. A Job of the chart.

    python -m oncelog_server.release_secrets --namespace prod --password log-postgres=password \\
      --password log-admin=token,password --text 'log-admin/client.properties=… password="{password}";' \\
      --prefix log --identity listener=log-listener,localhost

A password is drawn here and not where the chart is rendered, so that each rendering has the same objects. What is
there stays, so a release that is installed again finds the volumes and the passwords of the former one together.
"""

import argparse
import secrets as random_secrets
import string
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from oncelog.errors import OncelogError
from oncelog_server.kube_secrets import OPAQUE, ApiSecrets, Secrets
from oncelog_server.pki_secrets import keep_certificates, parsed_identity

PASSWORD_LENGTH: Final = 32
_ALPHABET: Final = string.ascii_letters + string.digits


class Drawn(NamedTuple):
    """A Secret, with those of its keys that get a random value once."""

    secret: str
    keys: tuple[str, ...]


class Text(NamedTuple):
    """A key of a Secret whose value is made from other keys: `{password}` in `text` is replaced by the value of the key
    `password`.
    """

    secret: str
    key: str
    text: str


def keep_passwords(secrets: Secrets, drawn: Sequence[Drawn], texts: Sequence[Text]) -> list[str]:
    """Draw the random values that are missing, make the texts, and write both into the Secrets. Returns the names of
    the Secrets that were made. Raises OncelogError.
    """
    made = []
    for secret, keys in drawn:
        known = secrets.read(secret)
        if known is None:
            if secrets.create(secret, _values(secret, keys, texts, {}), OPAQUE):
                made.append(secret)
                continue
            known = secrets.read(secret) or {}
        # Also where nothing changes: Helm does not delete what was written here.
        secrets.write(secret, _values(secret, keys, texts, known))
    return made


def _values(
    secret: str, keys: Sequence[str], texts: Sequence[Text], known: Mapping[str, bytes]
) -> dict[str, bytes]:
    found = {key: known.get(key) or _password() for key in keys}
    for one in texts:
        if one.secret == secret:
            text = one.text
            for key in keys:
                text = text.replace(f"{{{key}}}", found[key].decode())
            found[one.key] = text.encode()
    return found


def _password() -> bytes:
    """Return a new random password of letters and digits, which need no escaping in URLs and settings files."""
    return "".join(random_secrets.choice(_ALPHABET) for _ in range(PASSWORD_LENGTH)).encode()


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m oncelog_server.release_secrets", allow_abbrev=False, description=__doc__
    )
    made.add_argument("--namespace", required=True)
    made.add_argument(
        "--password",
        action="append",
        default=[],
        type=_drawn,
        metavar="SECRET=KEY,KEY",
        help="keys whose values are drawn, unless they are there",
    )
    made.add_argument("--text", action="append", default=[], type=_text, metavar="SECRET/KEY=TEXT")
    made.add_argument("--prefix", default="", help="of the names of Secrets with certificates")
    made.add_argument("--days", type=int, default=365, help="how long a certificate is valid")
    made.add_argument(
        "--identity", action="append", default=[], type=parsed_identity, metavar="NAME=HOST,HOST"
    )
    return made


def _drawn(text: str) -> Drawn:
    secret, mark, keys = text.partition("=")
    if not (secret and mark and all(keys.split(","))):
        raise argparse.ArgumentTypeError(f"{text!r} is not SECRET=KEY,KEY")
    return Drawn(secret, tuple(keys.split(",")))


def _text(text: str) -> Text:
    place, mark, value = text.partition("=")
    secret, slash, key = place.partition("/")
    if not (secret and slash and key and mark):
        raise argparse.ArgumentTypeError(f"{text!r} is not SECRET/KEY=TEXT")
    return Text(secret, key, value)


def main() -> int:
    options = parser().parse_args()
    secrets = ApiSecrets(options.namespace)
    try:
        made = keep_passwords(secrets, options.password, options.text)
        if options.identity:
            made += keep_certificates(secrets, options.prefix, options.identity, options.days)
    except OncelogError as error:
        print(f"not every Secret of the release is there: {error}", file=sys.stderr)
        return 1
    print(f"made: {', '.join(made)}" if made else "every Secret of the release is there")
    return 0


if __name__ == "__main__":
    sys.exit(main())
