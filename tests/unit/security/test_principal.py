"""Principals as Kafka's tools write them."""

import pytest

from oncelog.security.principal import Principal


@pytest.mark.parametrize(
    ("text", "principal_type", "name"),
    [
        ("User:alice", "User", "alice"),
        ("User:CN=alice,O=a:b", "User", "CN=alice,O=a:b"),
        ("Group:writers", "Group", "writers"),
        ("User:*", "User", "*"),
        ("User:", "User", ""),
        (":alice", "", "alice"),
    ],
)
def test_a_principal_is_parsed_and_printed(text, principal_type, name):
    assert Principal.parse(text) == Principal(principal_type, name)
    assert str(Principal.parse(text)) == text


@pytest.mark.parametrize("text", ["", "alice", "User=alice"])
def test_a_text_without_a_colon_is_refused_by_name(text):
    with pytest.raises(ValueError, match="User:alice") as refused:
        Principal.parse(text)
    assert repr(text) in str(refused.value)
