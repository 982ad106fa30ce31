"""`python -m oncelog.rpc.probe [HOST:PORT] [--service NAME]`: asks a process's health service how it is.

Its exit code is what a container's health check wants: 0 it serves, 1 it does not or cannot be asked, 2 used wrongly.
Without a service it asks whether the process is ready, with `--service liveness` whether it lives. Without an address
it asks this machine, at the port that `ONCELOG_NODE_PORT` gives the process.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oncelog.errors import OncelogError

if TYPE_CHECKING:
    import grpc

TIMEOUT_S: Final = 3.0
_PORT_VARIABLE: Final = "ONCELOG_NODE_PORT"
_PORT_DEFAULT: Final = "9090"
_SERVES: Final = 0
_DOES_NOT: Final = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command of a container's health check: ask the process's health service whether it is ready or lives, and
    print its answer in one line. Return the exit code, 0 if it serves.
    """
    options = _parser().parse_args(arguments)
    is_serving, said = check(options.address, options.service, TIMEOUT_S)
    print(f"{options.address}: {said}", file=sys.stdout if is_serving else sys.stderr)
    return _SERVES if is_serving else _DOES_NOT


def check(address: str, service: str, timeout_s: float) -> tuple[bool, str]:
    """Ask the health service at this address. Return True if it says SERVING, and its answer or the reason there is
    none.
    """
    # Imported late: a wrong use needs none of it.
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    try:
        opened = _channel(address)
    except OncelogError as error:
        return False, str(error)
    with opened as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(
                health_pb2.HealthCheckRequest(service=service),
                timeout=timeout_s,
                wait_for_ready=False,
            )
        except grpc.RpcError as error:
            return False, _why(error, service, timeout_s)
    status = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    return answer.status == health_pb2.HealthCheckResponse.SERVING, status


def _channel(address: str) -> "grpc.Channel":
    """Open a channel with the certificate of the process that runs here, if it has one. Raises OncelogError."""
    from oncelog.rpc.channel import open_blocking_channel

    files = [
        os.environ.get(f"ONCELOG_NODE_TLS_{name}_FILE") for name in ("CERTIFICATE", "KEY", "CA")
    ]
    if not all(files):
        return open_blocking_channel(address, None)
    from oncelog.rpc.mutual_tls import MutualTls

    return open_blocking_channel(address, MutualTls(*(Path(file) for file in files if file)))


def _why(error: "grpc.Call", service: str, timeout_s: float) -> str:
    import grpc

    code = error.code()
    if code is grpc.StatusCode.NOT_FOUND:
        return (
            f"the process knows no health service {service!r}; there are '' (ready) and 'liveness'"
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return (
            f"no answer within {timeout_s:g} s: the process hangs, or nothing lets the call through"
        )
    details = " ".join(str(error.details()).split())
    return f"cannot be asked: {code.name} {details}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m oncelog.rpc.probe",
        description="Asks a process of a cluster how it is. Exit code 0: it serves; 1: it does not, or did not "
        f"answer within {TIMEOUT_S:g} s; 2: used wrongly.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "address",
        nargs="?",
        metavar="HOST:PORT",
        type=_address,
        default=f"127.0.0.1:{os.environ.get(_PORT_VARIABLE) or _PORT_DEFAULT}",
        help=f"where it serves other nodes [default: this machine, port {_PORT_DEFAULT}] [port: {_PORT_VARIABLE}]",
    )
    parser.add_argument(
        "--service",
        default="",
        metavar="NAME",
        help="liveness: does it live; [default: is it ready]",
    )
    return parser


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) <= 65535):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no HOST:PORT, such as 127.0.0.1:{_PORT_DEFAULT} or [::1]:{_PORT_DEFAULT}"
        )
    return text


if __name__ == "__main__":
    sys.exit(main())
