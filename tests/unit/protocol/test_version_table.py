"""The version table against Kafka's own ranges (facts 2) and against what kio can read and write."""

import pytest
from kio.schema.index import api_key_map, schema_name_map

from oncelog.protocol.messages import schema_of
from oncelog.protocol.newer_messages import NEWER
from oncelog.protocol.private_api import PRIVATE_CALLS
from oncelog.protocol.versions import API_VERSIONS, APIS, PRODUCE
from oncelog_listener.routes import ROUTES

KAFKA_4_4 = {
    # key: (lowest, highest, first flexible version)
    0: (3, 13, 9),
    1: (4, 18, 12),
    2: (1, 11, 6),
    3: (0, 13, 9),
    8: (2, 10, 8),
    9: (1, 10, 6),
    10: (0, 6, 3),
    11: (0, 9, 6),
    12: (0, 4, 4),
    13: (0, 5, 4),
    14: (0, 5, 4),
    15: (0, 6, 5),
    16: (0, 5, 3),
    17: (0, 1, 2),
    18: (0, 5, 3),
    19: (2, 7, 5),
    20: (1, 6, 4),
    21: (0, 2, 2),
    22: (0, 6, 2),
    23: (2, 4, 4),
    24: (0, 5, 3),
    25: (0, 4, 3),
    26: (0, 5, 3),
    27: (1, 2, 1),
    28: (0, 6, 3),
    29: (1, 3, 2),
    30: (1, 3, 2),
    31: (1, 3, 2),
    32: (1, 4, 4),
    33: (0, 2, 2),
    34: (1, 2, 2),
    35: (1, 5, 2),
    36: (0, 2, 2),
    37: (0, 3, 2),
    42: (0, 3, 2),
    43: (0, 2, 2),
    44: (0, 1, 1),
    45: (0, 1, 0),
    46: (0, 0, 0),
    47: (0, 0, 1),
    48: (0, 1, 1),
    49: (0, 1, 1),
    50: (0, 0, 0),
    51: (0, 0, 0),
    55: (0, 2, 0),
    57: (0, 2, 0),
    60: (0, 2, 0),
    61: (0, 0, 0),
    65: (0, 0, 0),
    66: (0, 2, 0),
    68: (0, 1, 0),
    69: (0, 1, 0),
    74: (0, 1, 0),
    75: (0, 0, 0),
}
BOTH = [
    (api, version)
    for api in APIS.values()
    for version in range(api.served_min, api.max_version + 1)
]
# The highest version by key that librdkafka, aiokafka or kafka-python asks for (facts 2.2).
ASKED_FOR = {0: 10, 1: 11, 2: 7, 3: 1, 8: 9, 9: 9, 10: 2, 11: 5, 12: 3, 13: 1, 14: 3, 15: 4}
ASKED_FOR |= {16: 4, 18: 2, 22: 4, 24: 3, 25: 3, 26: 3, 28: 3, 32: 1, 42: 1, 47: 0}


@pytest.mark.parametrize("key", APIS, ids=lambda key: APIS[key].name)
def test_served_ranges_lie_within_kafkas(key):
    lowest, highest, flexible_from = KAFKA_4_4[key]
    api = APIS[key]
    assert api.served_min == lowest
    assert api.max_version <= highest
    assert api.flexible_from == flexible_from


def test_what_the_python_clients_speak_is_served():
    """A client takes an older version where this one is not served, and what it lacks is missed by nobody."""
    for key, version in ASKED_FOR.items():
        assert APIS[key].serves(version), key


def test_only_produce_is_told_from_a_version_that_is_not_served():
    told_lower = {key for key, api in APIS.items() if api.min_version != api.served_min}
    assert told_lower == {PRODUCE}
    assert APIS[PRODUCE].min_version == 0


def test_every_api_that_is_told_has_a_handler_and_no_other_has():
    assert ROUTES.keys() == APIS.keys()
    assert not APIS.keys() & PRIVATE_CALLS.keys()


def test_keys_and_names_are_kios():
    for api in APIS.values():
        assert api_key_map[api.key].replace("_", "") == api.name.lower()
        served = range(api.served_min, api.max_version + 1)
        missing = set(served) - schema_name_map[api_key_map[api.key]].keys()
        ours = {version for key, version in NEWER if key == api.key}
        assert missing == ours, "then use kio's"


@pytest.mark.parametrize(("api", "version"), BOTH, ids=lambda one: getattr(one, "name", one))
def test_headers_are_flexible_exactly_where_the_messages_are(api, version):
    schema = schema_of(api.key, version)
    assert schema.request.__flexible__ == api.is_flexible(version)
    assert schema.response.__flexible__ == api.is_flexible(version)
    expected = api.is_flexible(version) and api.key != API_VERSIONS
    assert api.response_has_tags(version) == expected
