"""Creates the first SCRAM users of a secured cluster in Kubernetes: a Job of the Helm chart sends them to the
controllers.

    python -m oncelog_server.scram_users FOLDER

Each file of the folder is a user, and its text the password. Nobody can log in before the first user exists. So this
sends the request that a listener would send, with a listener's certificate (ONCELOG_NODE_TLS_*), to
ONCELOG_NODE_CONTROLLERS.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import grpc

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, OncelogError
from oncelog.rpc.channel import PlainStub, open_blocking_channel
from oncelog.rpc.contract import CONTROLLER
from oncelog.rpc.mutual_tls import MutualTls
from oncelog.security.sasl import SCRAM_NUMBERS
from oncelog.security.scram import ITERATIONS_MIN, make_credential

RETRY_TIMEOUT_S: Final = 60.0
_PAUSE_S: Final = 0.5
_CALL_TIMEOUT_S: Final = 10.0


def passwords(folder: Path) -> dict[str, str]:
    """Return the passwords by user name, from the files of the folder. Raises OncelogError for a file without one."""
    found = {}
    # Kubernetes keeps what it mounts in folders of its own, `..data` and their like.
    for path in sorted(one for one in folder.iterdir() if not one.name.startswith("..")):
        found[path.name] = path.read_text().rstrip("\n")
        if not found[path.name]:
            raise OncelogError(f"{path} is empty; write the password of user {path.name} into it")
    return found


def requests_of(users: Mapping[str, str]) -> Iterator[pb.AlterUserScramCredentialsRequest]:
    """Yield the requests that create these users, one for each SCRAM mechanism, because a user may be only once in a
    request.
    """
    for mechanism, number in SCRAM_NUMBERS.items():
        request = pb.AlterUserScramCredentialsRequest()
        for user, password in users.items():
            made = make_credential(mechanism, password, ITERATIONS_MIN)
            request.credentials.add(
                user=user,
                mechanism=number,
                salt=made.salt,
                stored_key=made.stored_key,
                server_key=made.server_key,
                iterations=made.iterations,
            )
        yield request


def admit(
    request: pb.AlterUserScramCredentialsRequest, controllers: list[str], tls: MutualTls
) -> None:
    """Send a request that creates users to the active controller. Sending it twice changes nothing.

    Raises OncelogError when it is refused, or when no controller is active for a minute.
    """
    reason = "no address of a controller is given"
    deadline = time.monotonic() + RETRY_TIMEOUT_S
    while time.monotonic() < deadline:
        for address in controllers:
            reason = _ask(address, request, tls)
            if not reason:
                return
        time.sleep(_PAUSE_S)
    raise OncelogError(f"no controller took the users: {reason}")


def _ask(address: str, request: pb.AlterUserScramCredentialsRequest, tls: MutualTls) -> str:
    """Send a request to one controller. Returns empty text when it is done, else why the next controller must be tried.
    Raises OncelogError when the request is refused.
    """
    with open_blocking_channel(address, tls) as channel:
        alter = PlainStub(channel, CONTROLLER).AlterUserScramCredentials
        try:
            answer = alter(request, timeout=_CALL_TIMEOUT_S)
        except grpc.RpcError as error:
            return f"{address}: {' '.join(str(error.details()).split())}"
    for one in answer.results:
        if one.status.error_code == ErrorCode.NOT_CONTROLLER:
            return f"{address}: {one.status.error_message}"
        if one.status.error_code:
            raise OncelogError(f"{address} refuses them: {one.status.error_message}")
    return ""


def main() -> int:
    try:
        (folder,) = sys.argv[1:]
    except ValueError:
        print("usage: python -m oncelog_server.scram_users FOLDER", file=sys.stderr)
        return 2
    files = [os.environ[f"ONCELOG_NODE_TLS_{one}_FILE"] for one in ("CERTIFICATE", "KEY", "CA")]
    controllers = [one for one in os.environ.get("ONCELOG_NODE_CONTROLLERS", "").split(",") if one]
    try:
        users = passwords(Path(folder))
        for request in requests_of(users):
            admit(request, controllers, MutualTls(*map(Path, files)))
    except OncelogError as error:
        print(f"the users were not set: {error}", file=sys.stderr)
        return 1
    print(f"these log in with SCRAM: {', '.join(users)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
