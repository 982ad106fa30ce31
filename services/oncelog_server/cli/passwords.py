"""Reads passwords for commands: from a terminal without echo, or from a file. They never come from argv, which
everybody can list.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from oncelog.errors import OncelogError

PasswordFile = Annotated[
    Path | None,
    typer.Option(
        help="file whose first line is the password (- for stdin); without it, you are asked",
        show_default=False,
    ),
]


def read_password(user: str, file: Path | None) -> str:
    """Return the password. Raises OncelogError for a file that cannot be read, and for a password that is empty."""
    if file is not None:
        password = _first_line(file)
    elif sys.stdin.isatty():
        password = str(
            typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True)
        )
    else:
        raise OncelogError("nobody is there to type a password; give --password-file FILE")
    if not password:
        raise OncelogError(f"the password of {user} is empty; give one or more letters")
    return password


def _first_line(file: Path) -> str:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except OSError as error:
        raise OncelogError(f"cannot read the password in {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OncelogError(f"the password in {file} is no UTF-8 text") from None
    return text.split("\n", 1)[0].rstrip("\r")
