"""`python -m oncelog_robustness.lying`: a Kafka broker with one bug, made of any broker and a proxy that lies.

    python -m oncelog_robustness.lying --bug show-aborted --to 127.0.0.1:9092 --listen 127.0.0.1:19092

It prints a line when it listens, and one each time the bug strikes. Ctrl-C or SIGTERM ends it.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from typing import Final

from oncelog.errors import OncelogError
from oncelog_robustness.lying.catalog import BUGS, HONEST
from oncelog_robustness.lying.lie import Lie
from oncelog_robustness.lying.proxy import Address, LyingProxy

PORT_MAX: Final = 65_535


def main(arguments: Sequence[str]) -> int:
    known: list[type[Lie]] = [*BUGS.values(), Lie]
    bugs = "\n".join(f"  {one.name:22} {one.says}" for one in known)
    parser = argparse.ArgumentParser(
        prog="python -m oncelog_robustness.lying",
        description="A proxy before a Kafka broker which plants one bug.",
        epilog=f"bugs:\n{bugs}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bug", choices=[*BUGS, HONEST], default=HONEST, metavar="NAME")
    parser.add_argument("--to", required=True, metavar="HOST:PORT", help="a broker, without TLS")
    parser.add_argument(
        "--listen", default="127.0.0.1:19092", metavar="HOST:PORT", help="what clients are told"
    )
    parser.add_argument("--seed", type=int, default=1, help="decides when the bug strikes")
    given = parser.parse_args(arguments)
    lie = BUGS.get(given.bug, Lie)(given.seed)
    try:
        to, listen = _address(given.to), _address(given.listen)
        asyncio.run(_serve(lie, to, listen))
    except OncelogError as error:
        print(f"cannot begin: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        pass
    return 0


def _address(text: str) -> Address:
    """Parse `host:port`. Raises OncelogError for any other text."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > PORT_MAX:
        raise OncelogError(f"{text!r} is no host:port, such as 127.0.0.1:9092")
    return host.strip("[]"), int(port)


async def _serve(lie: Lie, to: Address, listen: Address) -> None:
    try:
        async with LyingProxy(lie, to, listen) as proxy:
            proxy.on_lie = lambda sentence: print(f"{lie.name}: {sentence}", flush=True)
            host, port = proxy.address
            print(f"listens at {host}:{port}; bug: {lie.name}", flush=True)
            ended = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
            await ended.wait()
    except OSError as error:
        raise OncelogError(
            f"cannot listen at {listen[0]}:{listen[1]}: {error.strerror or error}"
        ) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
