"""A salt shows nobody whether its user exists: names without one get the forms that users have, and keep them."""

import secrets
from collections import Counter

import pytest

from oncelog.security.sasl import SCRAM_SHA_256, SCRAM_SHA_512
from oncelog.security.scram import new_salt
from oncelog.security.scram_salts import OF_TOOLS, SaltForm, form_of, unknown_salt

KEY = b"a secret of this cluster"
OF_LIBRDKAFKA = SaltForm(64, 10_000)
THIRD = SaltForm(16, 8_192)
NAMES = [f"user-{number}" for number in range(300)]


def given(forms, key=KEY, mechanism=SCRAM_SHA_256):
    return {name: unknown_salt(key, mechanism, name, forms) for name in NAMES}


def forms_of(salts):
    return Counter(form_of(*one) for one in salts.values())


def test_without_users_a_salt_is_as_the_tools_write_it():
    salts = given(())
    assert set(forms_of(salts)) == {OF_TOOLS} == {form_of(new_salt(), 4_096)}
    assert len({salt for salt, _ in salts.values()}) == len(NAMES)


@pytest.mark.parametrize("form", [OF_LIBRDKAFKA, OF_TOOLS, THIRD])
def test_where_all_users_have_one_form_so_has_every_name(form):
    assert set(forms_of(given([form]))) == {form}


def test_names_share_the_forms_that_there_are():
    found = forms_of(given([OF_TOOLS, OF_LIBRDKAFKA, THIRD]))
    assert set(found) == {OF_TOOLS, OF_LIBRDKAFKA, THIRD}
    assert min(found.values()) > len(NAMES) // 5


def test_a_new_form_changes_the_salts_of_those_that_get_it():
    before, after = given([OF_TOOLS, OF_LIBRDKAFKA]), given([THIRD, OF_LIBRDKAFKA, OF_TOOLS])
    changed = {name for name in NAMES if before[name] != after[name]}
    assert changed == {name for name in NAMES if form_of(*after[name]) == THIRD}
    assert len(changed) < len(NAMES) // 2


def test_another_secret_and_another_mechanism_give_other_salts():
    one, two = given([OF_LIBRDKAFKA]), given([OF_LIBRDKAFKA], mechanism=SCRAM_SHA_512)
    other = given([OF_LIBRDKAFKA], key=secrets.token_bytes(32))
    assert all(one[name] != two[name] != other[name] != one[name] for name in NAMES)


def test_a_short_secret_is_none():
    with pytest.raises(AssertionError, match="short key"):
        unknown_salt(b"cluster", SCRAM_SHA_256, "alice", ())
