"""A process of an older version says and understands what that version's contracts have, and no more."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from oncelog_robustness.simulator import kept_versions
from oncelog_robustness.simulator.contract_calls import as_caller, as_server
from oncelog_robustness.simulator.contracts import SESSION_PATH, Spoken
from oncelog_robustness.simulator.kept_versions import older_contracts
from oncelog_robustness.simulator.process import SimProcess
from oncelog_robustness.simulator.record_tags import tags_of, with_tags
from tests.worlds.coordinator.stored_transactions import ONGOING

from oncelog.api.v1 import types_pb2
from oncelog.api.v1.controller_pb2 import DescribeControllerResponse
from oncelog.api.v1.coordinator_pb2 import EndTxnRequest, EndTxnResponse
from oncelog.api.v1.peer_pb2 import SessionFrame
from oncelog.api.v1.storage_pb2 import AppendRequest, FetchRequest
from oncelog.api.v1.types_pb2 import RequestNumber
from oncelog.errors import OncelogError
from oncelog.rpc.contract import SERVICES
from oncelog.rpc.served import CallRefused, ServedMethods
from oncelog_coordinator.core.request_origin import RequestOrigin
from oncelog_coordinator.core.txn_records import decode_record, encode_key, encode_value

END_TXN = "/oncelog.api.v1.TransactionCoordinator/EndTxn"
FETCH = "/oncelog.api.v1.Storage/Fetch"
WITH_ORIGIN = EndTxnRequest(
    transactional_id="pay", origin=types_pb2.RequestOrigin(listener=7, request=3)
)
NEWER_FIELD = b"\xfa\x3e\x03new"
"""Of a number that no message has."""


def test_what_a_kept_version_knows_passes_as_it_is():
    older = older_contracts("0.1.0")
    for path in (END_TXN, FETCH):
        for payload in (b"", WITH_ORIGIN.SerializeToString() if path == END_TXN else b"\x08\x05"):
            assert Spoken(older, path).request(payload) == payload
    assert older.messages_cut == 0 < older.messages


def test_every_method_of_today_is_known_to_today():
    today = older_contracts("this")
    methods = [method for service in SERVICES.values() for method in service.methods.values()]
    assert methods
    for method in methods:
        request, answer = today.method(method.path)
        assert request.DESCRIPTOR.full_name == _type_of(method.request_from_string)
        assert answer.DESCRIPTOR.full_name == _type_of(method.response_from_string)


def _type_of(from_string):
    return from_string(b"").DESCRIPTOR.full_name


def test_last_is_the_newest_version_that_is_kept(tmp_path, monkeypatch):
    kept = (kept_versions.KEPT / "0.1.0" / "contracts.binpb").read_bytes()
    for version in ("0.9.0", "0.10.0", "0.2.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "contracts.binpb").write_bytes(kept)
    (tmp_path / "0.11.0").mkdir()
    monkeypatch.setattr(kept_versions, "KEPT", tmp_path)
    assert older_contracts("last").name == "0.10.0"
    assert older_contracts(str(tmp_path / "0.2.0")).name == "0.2.0"


def test_a_newer_field_does_not_pass_wherever_it_is():
    older = older_contracts("last")
    payload = NEWER_FIELD + WITH_ORIGIN.SerializeToString() + b"\x32" + bytes([len(NEWER_FIELD)])
    passed = Spoken(older, END_TXN).request(payload + NEWER_FIELD)
    found = EndTxnRequest.FromString(passed)
    assert not UnknownFieldSet(found)
    assert not UnknownFieldSet(found.origin)
    assert found == WITH_ORIGIN
    assert older.messages_cut == 1


def test_a_newer_number_of_an_enum_stays_as_proto3_has_it():
    payload = b"\x20\x63"
    assert Spoken(older_contracts("last"), FETCH).request(payload) == payload
    assert FetchRequest.FromString(payload).isolation_level == 99


def test_what_cannot_be_read_stays_for_whoever_refuses_it():
    assert Spoken(older_contracts("last"), END_TXN).request(b"\x0a\x7f") == b"\x0a\x7f"


# --------------------------------------------------------------------------------------------- what is left out


def test_a_message_left_out_takes_its_fields_with_it():
    older = older_contracts("this", ("RequestNumber",))
    origin = types_pb2.RequestOrigin(listener=7, delayed_by=RequestNumber(listener=1))
    payload = EndTxnRequest(transactional_id="pay", origin=origin).SerializeToString()
    passed = EndTxnRequest.FromString(Spoken(older, END_TXN).request(payload))
    assert passed.origin.listener == 7
    assert not passed.origin.HasField("delayed_by")
    answer = EndTxnResponse(producer_id=4, delayed_by=RequestNumber(listener=1))
    passed = EndTxnResponse.FromString(Spoken(older, END_TXN).answer(answer.SerializeToString()))
    assert passed == EndTxnResponse(producer_id=4)


def test_a_message_left_out_takes_its_methods_with_it():
    for name in ("FetchRequest", "FetchResponse"):
        older = older_contracts("this", (name,))
        assert older.method(FETCH) is None
        assert older.method(END_TXN) is not None


@pytest.mark.parametrize(
    ("name", "request_class"),
    [
        ("AppendRequest.expected_base_offset", AppendRequest),  # optional: a oneof of its own
        ("AppendRequest.timeout_ms", AppendRequest),
    ],
)
def test_a_field_left_out_is_gone_and_its_neighbours_stay(name, request_class):
    older = older_contracts("this", (name,))
    request = request_class(timeout_ms=5, expected_base_offset=9, records=b"x")
    path = "/oncelog.api.v1.Storage/Append"
    passed = request_class.FromString(Spoken(older, path).request(request.SerializeToString()))
    request.ClearField(name.partition(".")[2])
    assert passed == request


def test_one_of_two_optional_fields_can_be_left_out():
    name = "ConsumerGroupHeartbeatRequest.instance_id"
    path = "/oncelog.api.v1.GroupCoordinator/ConsumerGroupHeartbeat"
    kind, _ = older_contracts("this", (name,)).method(path)
    assert kind(rack_id="r").HasField("rack_id")
    assert "instance_id" not in kind.DESCRIPTOR.fields_by_name


@pytest.mark.parametrize(
    ("version", "without", "message"),
    [
        ("0.0.9", (), "there is no older version '0.0.9': "),
        ("/nosuch", (), "or give 'this', or a folder with contracts.binpb"),
        ("this", ("RequestOrgin",), "did you mean RequestOrigin?"),
        ("this", ("EndTxnRequest.orgin",), "did you mean EndTxnRequest.origin?"),
        ("this", ("Storage.Ftch",), "did you mean Storage.Fetch?"),
        ("this", ("Peer.Session",), "have no Peer.Session"),
        ("this", ("SessionCall",), "have no SessionFrame.calls, without which no call can be made"),
        ("this", ("SessionReply.status",), "have no SessionReply.status"),
        ("this", ("__transaction_state:7",), "there are: __transaction_state:0, "),
    ],
)
def test_what_is_not_there_is_refused_by_name(version, without, message):
    with pytest.raises(OncelogError) as refused:
        older_contracts(version, without)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_holds_no_contracts_is_refused(tmp_path):
    (tmp_path / "contracts.binpb").write_bytes(b"\x0a\xff")
    with pytest.raises(OncelogError, match="is no set of descriptors"):
        older_contracts(str(tmp_path))


# ------------------------------------------------------------------------------------------------------ sessions


def test_calls_and_replies_of_a_session_are_cut_by_their_methods():
    older = older_contracts("this", ("RequestOrigin", "RequestNumber"))
    session = Spoken(older, SESSION_PATH)
    frame = SessionFrame()
    frame.calls.add(
        call_id=1, method=END_TXN, request=WITH_ORIGIN.SerializeToString(), timeout_ms=9
    )
    passed = SessionFrame.FromString(session.request(frame.SerializeToString()))
    assert passed.calls[0].timeout_ms == 9
    assert EndTxnRequest.FromString(passed.calls[0].request) == EndTxnRequest(
        transactional_id="pay"
    )
    answer = EndTxnResponse(error_code=51, delayed_by=RequestNumber(request=3))
    frame = SessionFrame()
    frame.replies.add(call_id=1, response=answer.SerializeToString())
    frame.replies.add(call_id=2, response=b"of a call that nobody knows of")
    passed = SessionFrame.FromString(session.answer(frame.SerializeToString()))
    assert EndTxnResponse.FromString(passed.replies[0].response) == EndTxnResponse(error_code=51)
    assert passed.replies[1].response == b"of a call that nobody knows of"


def test_a_method_the_older_version_has_not_is_refused():
    session = Spoken(older_contracts("this", ("Storage.Fetch",)), SESSION_PATH)
    frame = SessionFrame()
    frame.calls.add(call_id=1, method=FETCH)
    frame.calls.add(call_id=2, method=END_TXN)
    passed = SessionFrame.FromString(session.request(frame.SerializeToString()))
    assert passed.calls[1].method == END_TXN
    with pytest.raises(CallRefused, match="there is no such method in this version"):
        ServedMethods().find(passed.calls[0].method)


# ------------------------------------------------------------------------------------- whose code is running


class Handler:
    request_deserializer = staticmethod(EndTxnRequest.FromString)
    response_serializer = staticmethod(EndTxnResponse.SerializeToString)

    def _replace(self, **changed):
        made = Handler()
        made.__dict__.update(changed)
        return made


def test_a_process_of_this_version_is_left_alone():
    write, read, handler = EndTxnRequest.SerializeToString, EndTxnResponse.FromString, Handler()
    assert as_caller(END_TXN, write, read) == (END_TXN, write, read)
    assert as_server(None, END_TXN, handler) is handler
    process = SimProcess("storage-1", 1, "storage-1")
    assert process.context().run(as_caller, END_TXN, write, read) == (END_TXN, write, read)


def test_an_older_process_neither_says_nor_hears_what_is_newer():
    process = SimProcess("listener-1", 1, "listener-1")
    process.contracts = older_contracts("this", ("RequestOrigin", "RequestNumber"))
    write, read = EndTxnRequest.SerializeToString, EndTxnResponse.FromString
    path, write, read = process.context().run(as_caller, END_TXN, write, read)
    answer = EndTxnResponse(error_code=51, delayed_by=RequestNumber(request=3))
    assert path == END_TXN
    assert EndTxnRequest.FromString(write(WITH_ORIGIN)) == EndTxnRequest(transactional_id="pay")
    assert read(answer.SerializeToString()) == EndTxnResponse(error_code=51)
    served = as_server(process.contracts, END_TXN, Handler())
    assert served.request_deserializer(WITH_ORIGIN.SerializeToString()) == EndTxnRequest(
        transactional_id="pay"
    )
    assert served.response_serializer(answer) == b"\x08\x33"


def test_a_method_that_a_server_has_not_is_not_found():
    older = older_contracts("this", ("TransactionCoordinator.EndTxn",))
    assert as_server(older, END_TXN, Handler()) is None
    assert as_server(older, "/grpc.health.v1.Health/Check", "handler") == "handler"
    path, _, _ = _context_of(older).run(as_caller, END_TXN, None, None)
    assert path != END_TXN
    assert path.startswith(END_TXN)


def _context_of(contracts):
    process = SimProcess("storage-1", 1, "storage-1")
    process.contracts = contracts
    return process.context()


def test_plain_messages_that_stream_are_cut_as_well():
    older = older_contracts("this", ("DescribeControllerResponse.controller_epoch",))
    path = "/oncelog.api.v1.Controller/DescribeController"
    answer = DescribeControllerResponse(controller_epoch=4)
    _, _, read = _context_of(older).run(
        as_caller, path, None, DescribeControllerResponse.FromString
    )
    assert read(answer.SerializeToString()) == DescribeControllerResponse()


# ------------------------------------------------------------------------------------------------ stored records


def test_tagged_fields_unknown_to_an_older_one_do_not_exist():
    txn = replace(ONGOING, origin=RequestOrigin(41, 7, 3), client_transaction_version=2)
    value = encode_value(txn, 1)
    assert tags_of(value) == {0, 2, 100}
    kept = with_tags(value, frozenset({0, 1, 2}))
    key = encode_key(txn.transactional_id)
    assert decode_record(key, kept) == replace(txn, origin=None)
    assert with_tags(value, frozenset({0, 2, 100})) is value
    assert with_tags(encode_value(ONGOING, 0), frozenset()) == encode_value(ONGOING, 0)


def test_a_version_knows_the_tags_of_its_kept_records(tmp_path):
    for name in ("contracts.binpb", "records.json"):
        data = (kept_versions.KEPT / "0.1.0" / name).read_bytes()
        (tmp_path / name).write_bytes(data)
    assert older_contracts(str(tmp_path)).tags == {0, 1, 2, 100}
    records = json.loads((tmp_path / "records.json").read_text())
    kept = [one for one in records if one["kind"] != "transaction"]
    Path(tmp_path / "records.json").write_text(json.dumps(kept))
    assert older_contracts(str(tmp_path)).tags == {0, 1, 2}
    today = older_contracts("this").tags
    assert today >= {0, 1, 2, 100}
    assert older_contracts("this", ("__transaction_state:100",)).tags == today - {100}
