"""The types of Kafka's messages (ADR 0055): they are kio's, and mypy refuses by them what the run time refuses."""

import ast
import re
from pathlib import Path

import pytest
from mypy import api as mypy
from scripts.kafka_messages import CALLS, MESSAGES, calls_text, messages_text

from oncelog.protocol import versions
from oncelog.protocol.versions import APIS

ROOT = Path(__file__).resolve().parents[3]
AGAIN = "Kafka's messages have changed: run `make kafka-types`"

SNIPPET = """
from oncelog.protocol.messages import schema_of
from oncelog.protocol.versions import END_TXN, FETCH

end = schema_of(END_TXN, 5)
end.response_types.EndTxnResponse(error_code=0, producer_id=7)
end.request_types.EndTxnRequest(
    transactional_id="pay", producer_id=7, producer_epoch=0, committed=True
)
"""
REFUSED = {
    'end.response_types.EndTxnResponse(error_code=0, eror_message="")': (
        'Unexpected keyword argument "eror_message" for "EndTxnResponse"'
    ),
    "end.response_types.EndTxnResponse(producer_id=7)": 'Missing named argument "error_code"',
    'end.response_types.EndTxnResponse(error_code="none")': (
        'Argument "error_code" to "EndTxnResponse" has incompatible type "str"; expected "int"'
    ),
    "end.read_request(b'', 0).commited": '"EndTxnRequest" has no attribute "commited"',
    "end.read_response(b'', 0).error_message": (
        '"EndTxnResponse" has no attribute "error_message"'
    ),
    "end.write_response(schema_of(FETCH, 12).read_response(b'', 0))": (
        'has incompatible type "FetchResponse"; expected "EndTxnResponse"'
    ),
}


@pytest.mark.parametrize(("path", "text"), [(MESSAGES, messages_text), (CALLS, calls_text)])
def test_types_are_those_of_the_installed_kio(path, text):
    assert path.read_text() == text(), AGAIN


def test_each_api_key_has_the_types_of_its_api():
    text = Path(versions.__file__).read_text()
    keys = re.findall(r"^\w+: Final\[kafka\.(\w+)Key\] = ApiKey\((\d+)\)$", text, re.MULTILINE)
    assert {int(number): name for name, number in keys} == {
        api.key: api.name for api in APIS.values()
    }


def test_a_key_is_a_plain_number_when_a_process_runs():
    assert {type(key) for key in APIS} == {int}


def test_no_process_loads_the_types():
    """A stub is no module: an import outside TYPE_CHECKING fails at once."""
    for stub in (MESSAGES, CALLS):
        assert not stub.with_suffix(".py").exists()
        ast.parse(stub.read_text())


@pytest.mark.slow
def test_mypy_refuses_what_no_message_has(tmp_path):
    """In the cache of `make types`; without it mypy reads kio first, which takes some ten seconds."""
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET + "\n".join(REFUSED))
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    said, wrong, _ = mypy.run([*settings, "--cache-dir", str(ROOT / ".mypy_cache"), str(snippet)])
    assert not wrong
    first = SNIPPET.count("\n") + 1
    found = dict(re.findall(r"snippet\.py:(\d+): error: (.*)", said))
    assert [int(line) for line in found] == [*range(first, first + len(REFUSED))], said
    for (line, error), expected in zip(found.items(), REFUSED.values(), strict=True):
        assert expected in error, line
