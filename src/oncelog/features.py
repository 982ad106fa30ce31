"""The features that a cluster may finalize (KIP-584), with the levels that this release speaks."""

from collections.abc import Mapping
from typing import Final

FEATURE_LEVELS: Final[Mapping[str, range]] = {
    "group.version": range(2),
    "transaction.version": range(3),
    # Ours, for KIP-939: Kafka has no name for it yet (ADR 0043). A new cluster begins without.
    "two.phase.commit.version": range(2),
}
"""The levels by feature name. The controller finalizes one of them, and listeners tell clients which there are."""
