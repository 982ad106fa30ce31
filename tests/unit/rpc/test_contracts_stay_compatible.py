"""Two versions of oncelog run side by side in a rolling upgrade, so a contract that was released is only ever added to.

`tests/golden/VERSION/contracts.binpb` has the contracts of that version (`make golden-contracts`). A field that is
removed must be reserved by number, or another would take it and be read as the old one.
"""

import importlib
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

GOLDEN = Path(__file__).parents[2] / "golden"
RENAMED = {"RequestStamp": "RequestOrigin"}
"""Messages that have another name since. It does not travel; their fields are compared all the same."""
VERSIONS = sorted(path.name for path in GOLDEN.iterdir() if (path / "contracts.binpb").exists())


def files_then(version):
    found = FileDescriptorSet()
    found.ParseFromString((GOLDEN / version / "contracts.binpb").read_bytes())
    return found.file


def file_now(name):
    """The same file of today's code."""
    module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    found = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(found)
    return found


def messages_of(thing, prefix=""):
    """Of a file or message, with those within, by their full names."""
    own = thing.nested_type if isinstance(thing, DescriptorProto) else thing.message_type
    for message in own:
        name = f"{prefix}{message.name}"
        yield name, message
        yield from messages_of(message, f"{name}.")


def type_now(name):
    package, _, message = name.rpartition(".")
    return f"{package}.{RENAMED.get(message, message)}" if name else name


def breaks(then, now):
    """What of the old file a process of the new one would misread, or could not be asked for."""
    today = dict(messages_of(now))
    for name_then, message in messages_of(then):
        name = RENAMED.get(name_then, name_then)
        if name not in today:
            yield f"message {name} is gone"
            continue
        fields = {field.number: field for field in today[name].field}
        reserved = {
            number for one in today[name].reserved_range for number in range(one.start, one.end)
        }
        for field in message.field:
            known = fields.get(field.number)
            if known is None:
                if field.number not in reserved:
                    yield f"{name}.{field.name} = {field.number} is gone and not reserved"
            elif (known.type, known.label, known.type_name) != (
                field.type,
                field.label,
                type_now(field.type_name),
            ):
                yield f"{name}.{field.name} = {field.number} has another type"
            elif known.name != field.name and field.type != FieldDescriptor.TYPE_MESSAGE:
                yield f"{name}.{field.name} = {field.number} is now {known.name}: reserve the number, take a new one"
    enums = {one.name: {value.number: value.name for value in one.value} for one in now.enum_type}
    for enum in then.enum_type:
        for value in enum.value:
            if enums.get(enum.name, {}).get(value.number) != value.name:
                yield f"{enum.name}.{value.name} = {value.number} is gone or renumbered"
    services = {one.name: {m.name: m for m in one.method} for one in now.service}
    for service in then.service:
        for method in service.method:
            known = services.get(service.name, {}).get(method.name)
            if known is None:
                yield f"{service.name}.{method.name} is gone"
            elif (known.input_type, known.output_type) != (method.input_type, method.output_type):
                yield f"{service.name}.{method.name} takes or gives another message"
            elif (known.client_streaming, known.server_streaming) != (
                method.client_streaming,
                method.server_streaming,
            ):
                yield f"{service.name}.{method.name} streams otherwise"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_released_contract_is_only_added_to(version):
    found = [
        problem for then in files_then(version) for problem in breaks(then, file_now(then.name))
    ]
    assert found == []


def test_there_is_a_released_contract():
    assert VERSIONS


def _controller():
    return file_now("oncelog/api/v1/controller.proto")


def test_what_breaks_a_contract_is_named():
    then, now = _controller(), _controller()
    assert list(breaks(then, now)) == []
    node = next(one for one in now.message_type if one.name == "Node")
    for field in node.field:
        if field.name == "rpc_address":
            field.number = 99
        if field.name == "kafka_port":
            field.type = FieldDescriptor.TYPE_STRING
    del now.service[0].method[0]
    number = next(
        field.number
        for one in then.message_type
        if one.name == "Node"
        for field in one.field
        if field.name == "rpc_address"
    )
    found = list(breaks(then, now))
    assert f"Node.rpc_address = {number} is gone and not reserved" in found
    assert any("kafka_port" in one and "another type" in one for one in found)
    assert any(one.startswith("Controller.") and one.endswith("is gone") for one in found)
    node.reserved_range.add(start=number, end=number + 1)
    assert not any("rpc_address" in one for one in breaks(then, now))
