"""API tokens in the journal: what is taken, what is refused, and that every follower has the same."""

import pytest
from tests.unit.controller.metadata_cases import SMALL, Bench, codes, security_everywhere

from oncelog.errors import ErrorCode
from oncelog.security.api_tokens import LIFETIME_MAX_MS, ApiToken, digest_of
from oncelog_controller.core.api_tokens import TOKENS_MAX, altered_tokens
from oncelog_controller.core.events import AlterApiTokens, CreateToken, RevokeToken, UseToken
from oncelog_controller.core.image import ClusterImage
from oncelog_controller.core.records import Snapshot

CI = ApiToken("ci", digest_of("oncelog_1"), "operator", 1_000, 9_000, 0, "root")
OPS = ApiToken("ops", digest_of("oncelog_2"), "admin", 1_000, 9_000)


@pytest.fixture
def bench():
    return Bench(SMALL)


def alter(bench, *changes):
    return bench.ask(lambda rid: AlterApiTokens(rid, changes))


def test_tokens_come_and_go(bench):
    answer = alter(bench, CreateToken(CI), CreateToken(OPS))
    assert codes(answer) == [0, 0]
    assert answer.metadata_offset == bench.image.metadata_offset
    assert security_everywhere(bench).tokens == {CI.digest: CI, OPS.digest: OPS}
    assert codes(alter(bench, RevokeToken("ci"))) == [0]
    assert security_everywhere(bench).tokens == {OPS.digest: OPS}


def test_a_name_is_given_once(bench):
    alter(bench, CreateToken(CI))
    (refused,) = alter(bench, CreateToken(CI._replace(digest=OPS.digest))).results
    assert refused.error_code is ErrorCode.DUPLICATE_RESOURCE
    assert "'ci'" in refused.message
    assert security_everywhere(bench).tokens == {CI.digest: CI}


def test_one_name_changes_once_in_a_request(bench):
    assert codes(alter(bench, CreateToken(CI), RevokeToken("ci"))) == [0, ErrorCode.INVALID_REQUEST]
    assert security_everywhere(bench).tokens == {CI.digest: CI}


def test_an_unknown_token_is_not_revoked(bench):
    (refused,) = alter(bench, RevokeToken("ci")).results
    assert refused.error_code is ErrorCode.RESOURCE_NOT_FOUND


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name"),
        ({"name": "a b"}, "'a b'"),
        ({"name": "x" * 101}, "name"),
        ({"digest": ""}, "SHA-256"),
        ({"digest": "0f" * 31}, "SHA-256"),
        ({"role": "root"}, "'root'"),
        ({"expires_ms": 1_000}, "ends"),
        ({"expires_ms": 1_001 + LIFETIME_MAX_MS}, "ten years"),
    ],
)
def test_what_is_no_token_is_refused(bench, change, message):
    (refused,) = alter(bench, CreateToken(CI._replace(**change))).results
    assert refused.error_code is ErrorCode.INVALID_REQUEST
    assert message in refused.message
    assert security_everywhere(bench).tokens == {}


def test_the_last_use_only_grows(bench):
    alter(bench, CreateToken(CI))
    alter(bench, UseToken("ci", CI.digest, 3_000))
    alter(bench, UseToken("ci", CI.digest, 2_000))
    assert security_everywhere(bench).tokens[CI.digest].last_used_ms == 3_000


def test_a_revoked_token_is_not_used(bench):
    alter(bench, CreateToken(CI))
    records = len(bench.records)
    assert codes(alter(bench, UseToken("ci", OPS.digest, 3_000))) == [0]
    assert codes(alter(bench, UseToken("gone", CI.digest, 3_000))) == [0]
    assert len(bench.records) == records


def test_tokens_are_bounded():
    known = {f"t{number}": CI for number in range(TOKENS_MAX)}
    answer, record = altered_tokens(known, AlterApiTokens(1, (CreateToken(CI),)))
    assert codes(answer) == [ErrorCode.POLICY_VIOLATION]
    assert record.tokens == ()


def test_tokens_outlive_a_snapshot(bench):
    alter(bench, CreateToken(CI))
    image = ClusterImage()
    image.apply(7, Snapshot(bench.image.to_state()))
    assert image.security.tokens == {"ci": CI}


def test_no_digest_is_printed(bench):
    alter(bench, CreateToken(CI))
    assert CI.digest not in repr(bench.records)
    assert CI.digest not in repr(AlterApiTokens(1, (CreateToken(CI), UseToken("a", CI.digest, 1))))
