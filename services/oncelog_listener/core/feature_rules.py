"""The rules for changes of finalized features in a request (KIP-584, KIP-778), as Kafka has them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from oncelog.errors import ErrorCode, KafkaError

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


class FeatureUpdate(NamedTuple):
    feature: str
    level: int
    upgrade_type: int


def wanted_levels(known: Mapping[str, int], updates: list[FeatureUpdate]) -> dict[str, int]:
    """Return the level that each feature should be finalized at, after an UpdateFeatures request.

    Raises KafkaError(INVALID_UPDATE_VERSION or INVALID_REQUEST). The controller decides which levels exist.
    """
    wanted: dict[str, int] = {}
    for update in updates:
        if update.feature in wanted:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{update.feature!r} stands twice")
        level = known.get(update.feature, 0)
        reason = ""
        if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            reason = f"upgrade type {update.upgrade_type} is none of 1, 2 and 3"
        elif update.level < 0:
            reason = "a level is 0 or more"
        elif update.level < level and update.upgrade_type == UPGRADE:
            reason = f"it is at {level}: a lower level needs upgrade type 2 or 3"
        elif update.level > level and update.upgrade_type != UPGRADE:
            reason = f"it is at {level}: a higher level is no downgrade"
        if reason:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION, f"{update.feature}={update.level}: {reason}"
            )
        wanted[update.feature] = update.level
    return wanted
