"""Our authorizer beside Apache Kafka's StandardAuthorizer: the same users, ACLs and requests, and the same answers.

Each request goes to both brokers. What a user learns must be equal: every error code, every name, every set of
authorized operations. `DIFFERENCES` names the requests that we answer with another code, with the reason;
docs/compatibility.md tells users.
"""

import pytest
from tests.conformance.authorizer_brokers import both_brokers
from tests.conformance.authorizer_requests import all_asks, with_codes
from tests.conformance.authorizer_users import USERS

from oncelog.protocol import versions

pytestmark = pytest.mark.slow

NOT_SERVED = {0: 42, 31: 42}
"""INVALID_REQUEST for everybody: oncelog has no such thing."""

DIFFERENCES = {
    "FindCoordinator of a share group": {31: 42},
    "DescribeConfigs of loggers": {0: 42},
    "DescribeConfigs of client metrics": {0: 42},
    "IncrementalAlterConfigs of loggers": NOT_SERVED,
    "AlterConfigs of client metrics": NOT_SERVED,
    "IncrementalAlterConfigs of client metrics": NOT_SERVED,
    # Kafka keeps the cluster's min.insync.replicas for its eligible leader replicas (KIP-966), which oncelog has not.
    "AlterConfigs of all brokers": {40: 0},
}
"""By title: our code for a code of Kafka's."""
SHOWN_MAX = 5


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    with both_brokers(tmp_path_factory.mktemp("brokers")) as both:
        yield both


def answers(brokers, ask):
    """(what was asked, what Kafka told, what we told) for each version, request and user."""
    kafka, ours = brokers
    for version in ask.versions:
        for number in range(len(ask.requests(version, ours.ids))):
            for user in USERS:
                theirs, found = (one.told(user.name, ask, version, number) for one in brokers)
                if ask.api_key == versions.DELETE_TOPICS:
                    kafka.restore(theirs)
                    ours.restore(found)
                yield f"v{version}, request {number}, user with {user.about}", theirs, found


@pytest.mark.parametrize("ask", all_asks(), ids=lambda ask: ask.title)
def test_both_tell_each_user_the_same(brokers, ask):
    ours_for_theirs = DIFFERENCES.get(ask.title, {})
    wrong, is_different = [], False
    for query, theirs, ours_answer in answers(brokers, ask):
        is_different |= theirs != ours_answer
        if with_codes(theirs, ours_for_theirs) != ours_answer:
            wrong.append(f"{query}:\n  Kafka {theirs}\n  ours  {ours_answer}")
    assert not wrong, f"{len(wrong)} answers differ\n" + "\n".join(wrong[:SHOWN_MAX])
    assert is_different == bool(ours_for_theirs), "both are equal now: it is no difference any more"
