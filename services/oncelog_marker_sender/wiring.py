"""The marker sender as a part of a process (a `Role`), and the function that builds it."""

from oncelog.ids import Millis
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import MetadataFollower
from oncelog.telemetry.feed import Feed, build_feed
from oncelog_marker_sender.core.queues import Limits, MarkerQueues
from oncelog_marker_sender.feed_events import MarkerEvents
from oncelog_marker_sender.sender import MarkerSender
from oncelog_marker_sender.servicer import MarkerSenderServicer
from oncelog_marker_sender.settings import MarkerSenderSettings


class MarkerSenderRole:
    """The marker sender as its process starts and stops it (a `Role`). `servicer` answers the `MarkerSender`
    service.
    """

    def __init__(self, sender: MarkerSender, feed: Feed | None = None) -> None:
        self.sender = sender
        self._feed = feed
        self.servicer = MarkerSenderServicer(sender)

    async def start(self) -> None:
        self.sender.start()
        if self._feed is not None:
            self._feed.start()

    async def stop(self) -> None:
        """Stop. Deliveries under way are answered OVERLOADED, and their coordinators ask another sender at once."""
        await self.sender.stop()
        if self._feed is not None:
            await self._feed.stop()


def build_marker_sender(
    settings: MarkerSenderSettings,
    metadata: MetadataFollower,
    directory: Directory,
    node_id: int = -1,
    feed: Feed | None = None,
) -> MarkerSenderRole:
    """Return the marker sender. `feed` replaces the one of the settings' `redis_url`, and `node_id` is the sender of
    its events."""
    feed = feed or build_feed(settings.redis_url, "marker-sender", node_id)
    limits = Limits(
        queued_markers_max=settings.queued_markers_max,
        request_markers_max=settings.request_markers_max,
        retry_backoff_ms=Millis(settings.retry_backoff_ms),
        retry_backoff_max_ms=Millis(settings.retry_backoff_max_ms),
    )
    sender = MarkerSender(
        MarkerQueues(limits),
        metadata,
        directory,
        settings.request_timeout_ms,
        None if feed is None else MarkerEvents(feed),
    )
    return MarkerSenderRole(sender, feed)
