"""The typed stubs have the methods of the contract, with its messages."""

from typing import get_args, get_type_hints

import pytest

from oncelog.rpc import stubs
from oncelog.rpc.contract import SERVICES


@pytest.mark.parametrize("service", sorted(SERVICES.keys() - {"Peer"}))
def test_a_typed_stub_is_what_the_contract_says(service):
    stub = getattr(stubs, f"{service}Stub")
    unary = {name: one for name, one in SERVICES[service].methods.items() if one.is_unary}
    typed = {name: get_args(one) for name, one in get_type_hints(stub).items()}
    assert typed.keys() == unary.keys()
    for name, method in unary.items():
        request, response = typed[name]
        assert isinstance(method.request_from_string(b""), request)
        assert isinstance(method.response_from_string(b""), response)
