"""Batches that the fuzzer found to be read otherwise than said."""

import py_compile
import struct
import subprocess
import sys

import pytest
from tests.fuzz import batches_target
from tests.record_walks import FORMS, from_source, use

from oncelog.errors import ErrorCode, KafkaError
from oncelog.record.batch import HEADER_BYTES, read_header
from oncelog.record.check import CheckRules, check_producer_batch
from oncelog.record.control import Marker, MarkerType, decode_marker, encode_marker
from oncelog.record.records import Record, decode_batch, encode_batch

MARKER = Marker(MarkerType.COMMIT, 1)


@pytest.mark.parametrize("read", [decode_marker, lambda batch: list(decode_batch(batch))])
def test_a_batch_of_fewer_than_no_records_is_corrupt(read):
    batch = bytearray(encode_marker(MARKER, producer_id=7, producer_epoch=0, timestamp=1_000))
    struct.pack_into(">i", batch, 57, -1)
    with pytest.raises(KafkaError, match="says -1 records") as refused:
        read(bytes(batch))
    assert refused.value.error_code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("walk", FORMS)
@pytest.mark.parametrize("attributes", [0x80, 0xFF])
def test_a_record_attribute_is_one_byte(monkeypatch, attributes, walk):
    """The compiled reader takes it for a varint: it read another key and value than every other reader."""
    use(monkeypatch, walk)
    body = bytes([attributes, 0, 0, 0, 0xFF, 0x75, 0, 0])
    batch = bytearray(encode_batch([Record(b"k", b"v", 1_000)]))[:HEADER_BYTES]
    batch += bytes([len(body) << 1]) + body
    fitted = batches_target.fitted(bytes(batch))
    with pytest.raises(KafkaError, match=f"attributes of {attributes}"):
        check_producer_batch(fitted, read_header(fitted), CheckRules())


def test_bytecode_without_its_source_is_not_compiled(tmp_path):
    """As an image has it: the look in Python is slower than the reader that it replaces."""
    bytecode = tmp_path / "walk.pyc"
    py_compile.compile(from_source().__file__, cfile=str(bytecode))
    script = (
        "import importlib.util, sys\n"
        "spec = importlib.util.spec_from_file_location('oncelog.record.walk', sys.argv[1])\n"
        "walk = sys.modules[spec.name] = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(walk)\n"
        "from oncelog.record.check import IS_WALK_COMPILED\n"
        "print(IS_WALK_COMPILED)\n"
    )
    command = [sys.executable, "-c", script, str(bytecode)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
