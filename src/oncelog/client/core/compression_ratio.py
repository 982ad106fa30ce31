"""The compression ratio of each topic's records so far. It estimates how many bytes compress to `batch.size`, so a
batch is filled that far (S2-76, ADR 0044)."""

from typing import Final

from oncelog.record.batch import Codec

_BETTER_BY: Final = 0.005
_WORSE_BY: Final = 0.05
_SAFETY: Final = 1.05
_RATIO_MIN: Final = 0.05


class CompressionRatios:
    """The expected compression ratios by topic and codec. They fall slowly and rise quickly: too large a batch costs
    more than a small one."""

    def __init__(self) -> None:
        self._ratios: dict[tuple[str, Codec], float] = {}

    def room(self, topic: str, codec: Codec, batch_size: int) -> int:
        """Return how many bytes before compression are expected to make about `batch_size` bytes after it."""
        if codec is Codec.NONE:
            return batch_size
        ratio = self._ratios.get((topic, codec), 1.0)
        return int(batch_size / min(1.0, max(ratio * _SAFETY, _RATIO_MIN)))

    def observe(self, topic: str, codec: Codec, ratio: float) -> None:
        if codec is Codec.NONE:
            return
        known = self._ratios.get((topic, codec), 1.0)
        if ratio > known:
            new = max(known + _WORSE_BY, ratio)
        else:
            new = max(known - _BETTER_BY, ratio)
        self._ratios[(topic, codec)] = new

    def reset(self, topic: str, codec: Codec, at_least: float) -> None:
        """Raise the topic's ratio to at least this, because a broker refused a batch as too large."""
        self._ratios[(topic, codec)] = max(self._ratios.get((topic, codec), 1.0), at_least)
