"""The counts of a listener: plain numbers, which the role's metrics read. Nothing here knows Prometheus."""

from dataclasses import dataclass, field
from typing import Final

from oncelog.process.role_metrics import Histogram
from oncelog.protocol.private_api import PRIVATE_CALLS
from oncelog.protocol.versions import APIS

_UNKNOWN: Final = "unknown"


def api_name(api_key: int) -> str:
    """Return Kafka's name of the API, as a label of metrics. All numbers of unserved APIs have one name: a client may
    send 65536 of them."""
    if api_key in APIS:
        return APIS[api_key].name
    private = PRIVATE_CALLS.get(api_key)
    return _UNKNOWN if private is None else private.method


@dataclass(slots=True)
class ListenerCounters:
    connections_open: int = 0
    connections_accepted: int = 0
    connections_refused: int = 0
    """The connections that were closed at once because `connections_max` were open or memory ran out."""
    connections_idle_closed: int = 0
    throttles: int = 0
    """The answers after which a client was held because it had exceeded a quota."""
    bytes_received: int = 0
    bytes_sent: int = 0
    latencies: dict[str, Histogram] = field(default_factory=dict)
    """The seconds from a whole request to its response, by API name, waits of a Fetch for records included."""
    request_failures: dict[str, int] = field(default_factory=dict)
    """The number of requests by API name that ended with a closed connection."""

    def count_request(self, api_key: int, seconds: float) -> None:
        name = api_name(api_key)
        latency = self.latencies.get(name)
        if latency is None:
            latency = self.latencies[name] = Histogram()
        latency.observe(seconds)

    def count_failure(self, api_key: int) -> None:
        name = api_name(api_key)
        self.request_failures[name] = self.request_failures.get(name, 0) + 1
