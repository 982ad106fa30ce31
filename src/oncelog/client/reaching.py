"""The settings of the network, made from the bootstrap servers, config and keywords that a program gives."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final

from oncelog.client.core.addresses import parse_addresses
from oncelog.client.core.setting_names import merged, settings_of, split_login
from oncelog.client.errors import ConfigError
from oncelog.client.network.brokers import NetworkOptions, NetworkSettings
from oncelog.errors import OncelogError

NETWORK_NAMES: Final = tuple(one.name for one in fields(NetworkOptions))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Both:
    """The settings that belong both to a client and to its network: the request's time-out and the pauses between
    retries."""

    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


def split_settings(
    bootstrap_servers: str | Iterable[str],
    config: Mapping[str, object] | None,
    options: Mapping[str, object],
    names: Iterable[str],
) -> tuple[dict[str, object], NetworkSettings]:
    """Split what a program gives into the client's own settings (`names`) and those of its network.
    Raises ConfigError."""
    rest, login = split_login(config or {})
    servers = rest.pop("bootstrap.servers", None) or bootstrap_servers
    given = merged(options, rest, (*names, *NETWORK_NAMES))
    network = {name: given.pop(name) for name in NETWORK_NAMES if name in given}
    if not isinstance(servers, Iterable):
        raise ConfigError(
            f"bootstrap.servers is {servers!r}: give host:port, for example localhost:9092"
        )
    text = servers if isinstance(servers, str) else ",".join(map(str, servers))
    try:
        addresses = parse_addresses(text)
    except OncelogError as error:
        raise ConfigError(str(error)) from error
    checked = asdict(settings_of(NetworkOptions, network))
    names_of_both = (one.name for one in fields(_Both))
    both = asdict(
        settings_of(_Both, {name: given[name] for name in names_of_both if name in given})
    )
    return given, NetworkSettings(addresses, login=login, **both, **checked)
