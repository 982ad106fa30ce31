"""What the stub of the controller sees in an answer: whether this controller is not the active one."""

import pytest
from google.protobuf.descriptor import FieldDescriptor

from oncelog.errors import ErrorCode
from oncelog.rpc.contract import CONTROLLER, SERVICES
from oncelog.rpc.controller_stub import _is_not_controller

ANSWERS = {
    name: method.response_from_string
    for name, method in SERVICES[CONTROLLER].methods.items()
    if method.is_unary
}


def refuse(message, code):
    """Put the code wherever the message, or an item of it, has room for one."""
    found = False
    for field in message.DESCRIPTOR.fields:
        if field.name == "error_code":
            message.error_code = code
            found = True
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            is_list = field.name in ("results", "partitions")
            if field.name == "status" or is_list:
                part = getattr(message, field.name)
                found |= refuse(part.add() if is_list else part, code)
    return found


@pytest.mark.parametrize("name", ANSWERS)
def test_a_refusal_by_a_standby_is_seen_in_every_answer(name):
    answer = ANSWERS[name](b"")
    has_code = refuse(answer, ErrorCode.NOT_CONTROLLER)
    assert _is_not_controller(answer) is has_code
    other = ANSWERS[name](b"")
    refuse(other, ErrorCode.INVALID_REQUEST)
    assert not _is_not_controller(other)
    assert not _is_not_controller(ANSWERS[name](b""))
