"""Client quotas: which there may be, and whose holds."""

import pytest

from oncelog.security.quotas import entity_fault, entity_of, ip_quota, quota_fault, quota_of

RATE = "producer_byte_rate"
USER, CLIENT, IP = "user", "client-id", "ip"


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        ({USER: "alice"}, ""),
        ({USER: None}, ""),
        ({USER: "alice", CLIENT: None}, ""),
        ({IP: "10.0.0.1"}, ""),
        ({IP: None}, ""),
        ({}, "empty"),
        ({"group": "a"}, "'group'"),
        ({IP: "10.0.0.1", USER: "alice"}, "alone"),
        ({IP: "nowhere.invalid"}, "'nowhere.invalid'"),
        ({USER: ""}, "0 characters"),
    ],
)
def test_entities(entity, message):
    fault = entity_fault(entity_of(entity))
    assert message in fault
    assert bool(fault) is bool(message)


def test_a_type_stands_once():
    assert "twice" in entity_fault(((USER, "a"), (USER, "b")))


@pytest.mark.parametrize(
    ("entity", "key", "value", "message"),
    [
        ({USER: "a"}, RATE, 1024.0, ""),
        ({USER: "a"}, RATE, None, ""),
        ({USER: "a"}, RATE, 0.0, "greater than 0"),
        ({USER: "a"}, RATE, float("nan"), "greater than 0"),
        ({USER: "a"}, RATE, float("inf"), "above"),
        ({USER: "a"}, RATE, 1.5, "fraction"),
        ({USER: "a"}, "request_percentage", 1.5, ""),
        ({USER: "a"}, "connection_creation_rate", 5.0, "not known here"),
        ({IP: None}, "connection_creation_rate", 5.0, ""),
        ({IP: None}, RATE, 5.0, "not known here"),
        ({USER: "a"}, "no_such", None, "not known here"),
    ],
)
def test_values(entity, key, value, message):
    fault = quota_fault(entity_of(entity), key, value)
    assert message in fault
    assert bool(fault) is bool(message)


def test_the_nearest_quota_holds():
    in_order = [
        {USER: "a", CLIENT: "c"},
        {USER: "a", CLIENT: None},
        {USER: "a"},
        {USER: None, CLIENT: "c"},
        {USER: None, CLIENT: None},
        {USER: None},
        {CLIENT: "c"},
        {CLIENT: None},
    ]
    quotas = {entity_of(entity): {RATE: float(n)} for n, entity in enumerate(in_order)}
    for n, entity in enumerate(in_order):
        sharing, value = quota_of(quotas, "a", "c", RATE)
        assert value == n
        assert {kind for kind, _ in sharing} == set(entity)
        del quotas[entity_of(entity)]
    assert quota_of(quotas, "a", "c", RATE) is None


def test_a_default_is_counted_for_each_user():
    quotas = {entity_of({USER: None}): {RATE: 5.0}}
    assert quota_of(quotas, "a", "c", RATE)[0] != quota_of(quotas, "b", "c", RATE)[0]
    assert quota_of(quotas, "a", "c", RATE)[0] == quota_of(quotas, "a", "d", RATE)[0]


def test_an_address_has_its_own_or_the_default_rate():
    key = "connection_creation_rate"
    quotas = {((IP, "10.0.0.1"),): {key: 5.0}, ((IP, None),): {key: 9.0}}
    assert (ip_quota(quotas, "10.0.0.1"), ip_quota(quotas, "10.0.0.2")) == (5.0, 9.0)
    assert ip_quota({}, "10.0.0.1") is None
