"""Any bytes are either a certificate or a ValueError; any rule text is either rules or a ValueError."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.security.distinguished_name import subject_of
from oncelog.security.ssl_principal import NoMatchingRuleError, PrincipalRules

der = st.recursive(
    st.binary(max_size=8),
    lambda inner: st.tuples(st.sampled_from([0x30, 0x31, 0x06, 0x0C, 0xA0, 0x02]), inner).map(
        lambda pair: bytes([pair[0], min(len(pair[1]), 127)]) + pair[1]
    ),
    max_leaves=6,
)


@given(st.binary(max_size=80) | der)
@settings(max_examples=300)
def test_no_bytes_break_the_reader(certificate):
    with contextlib.suppress(ValueError):
        assert isinstance(subject_of(certificate), str)


@given(
    st.lists(
        st.sampled_from(["RULE:", "DEFAULT", "/", ",", " ", "\\", "$1", "(", ")", ".*", "L", "x"])
    )
)
@settings(max_examples=300)
def test_no_rules_break_the_parser(pieces):
    with contextlib.suppress(ValueError, NoMatchingRuleError):
        rules = PrincipalRules("".join(pieces))
        assert isinstance(rules.name_of("CN=x"), str)
