"""What the constructors of a message's structures take, and what they refuse."""

import pytest

from oncelog.protocol.messages import schema_of
from oncelog.protocol.versions import APIS, END_TXN, METADATA


def test_a_field_of_another_version_is_dropped():
    types = schema_of(END_TXN, APIS[END_TXN].served_min).response_types
    assert not hasattr(types.EndTxnResponse(error_code=0, producer_id=7), "producer_id")


@pytest.mark.parametrize("version", [APIS[END_TXN].served_min, APIS[END_TXN].max_version])
def test_a_field_of_no_version_is_refused(version):
    types = schema_of(END_TXN, version).response_types
    with pytest.raises(TypeError, match=r"no version of EndTxnResponse has eror_mesage$"):
        types.EndTxnResponse(error_code=0, eror_mesage="")


def test_a_field_of_no_version_is_refused_in_an_inner_structure():
    types = schema_of(METADATA, APIS[METADATA].max_version).response_types
    with pytest.raises(TypeError, match=r"MetadataResponseTopic has nmae$"):
        types.MetadataResponseTopic(error_code=0, nmae="orders")
