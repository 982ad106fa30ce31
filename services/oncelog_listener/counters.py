"""What the listener counts. Plain integers, read by whoever exports metrics; nothing here knows Prometheus."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class ListenerCounters:
    connections_open: int = 0
    connections_accepted: int = 0
    connections_refused: int = 0
    """Closed at once because `connections_max` were open or memory ran out."""
    connections_idle_closed: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    requests: dict[int, int] = field(default_factory=dict)
    """Answered requests by API key."""
    request_failures: dict[int, int] = field(default_factory=dict)
    """Requests by API key that ended with a closed connection; -1: no request could be read."""

    def count_request(self, api_key: int) -> None:
        self.requests[api_key] = self.requests.get(api_key, 0) + 1

    def count_failure(self, api_key: int) -> None:
        self.request_failures[api_key] = self.request_failures.get(api_key, 0) + 1
