"""Kafka's rules for UpdateFeatures (KIP-584, KIP-778)."""

import pytest

from oncelog.errors import ErrorCode, KafkaError
from oncelog_listener.core.feature_rules import FeatureUpdate, wanted_levels

KNOWN = {"transaction.version": 1}


@pytest.mark.parametrize(
    ("level", "upgrade_type", "is_taken"),
    [
        *((2, 1, True), (1, 1, True), (0, 1, False), (0, 2, True), (0, 3, True), (1, 2, True)),
        *((2, 2, False), (2, 3, False), (2, 0, False), (2, 4, False), (-1, 3, False)),
    ],
)
def test_a_level_goes_the_way_that_its_upgrade_type_says(level, upgrade_type, is_taken):
    updates = [FeatureUpdate("transaction.version", level, upgrade_type)]
    if is_taken:
        assert wanted_levels(KNOWN, updates) == {"transaction.version": level}
        return
    with pytest.raises(KafkaError) as caught:
        wanted_levels(KNOWN, updates)
    assert caught.value.error_code is ErrorCode.INVALID_UPDATE_VERSION
    assert "transaction.version" in caught.value.message


def test_a_feature_may_stand_once():
    updates = [FeatureUpdate("transaction.version", 2, 1)] * 2
    with pytest.raises(KafkaError) as caught:
        wanted_levels(KNOWN, updates)
    assert caught.value.error_code is ErrorCode.INVALID_REQUEST
