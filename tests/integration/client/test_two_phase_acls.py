"""Who may do without a time-out: WRITE and TWO_PHASE_COMMIT on the transactional.id (KIP-939)."""

import pytest
from tests.free_ports import free_block
from tests.integration.client.writers import fresh
from tests.integration.listener.secured_log import Secured

from oncelog.client import AuthorizationError
from oncelog.client.blocking import Admin, Producer
from oncelog.errors import ErrorCode
from oncelog.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from oncelog_server.demo.processes import OncelogServer


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    inside, outside = free_block(2)
    environment = {
        "ONCELOG_LISTENER_LISTENERS": f"PLAINTEXT://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
        "ONCELOG_LISTENER_LISTENER_SECURITY_PROTOCOL_MAP": "OUTSIDE:SASL_PLAINTEXT",
        "ONCELOG_LISTENER_AUTHORIZER": "acl",
        "ONCELOG_LISTENER_SUPER_USERS": "User:ANONYMOUS",
        "ONCELOG_COORDINATOR_TWO_PHASE_COMMIT_ENABLED": "true",
    }
    data = tmp_path_factory.mktemp("server") / "data"
    with OncelogServer(data, port=inside, environment=environment):
        found = Secured(f"127.0.0.1:{inside}", f"127.0.0.1:{outside}")
        found.add_user("alice")
        with Admin(found.inside) as admin:
            admin.update_features({"two.phase.commit.version": 1}, allows_data_loss=True)
        yield found


def allowed(secured, name, operations):
    """ACLs that our own administrator made, as it reads them again."""
    wanted = [
        Acl(
            ResourceType.TRANSACTIONAL_ID,
            name,
            PatternType.LITERAL,
            "User:alice",
            "*",
            one,
            Permission.ALLOW,
        )
        for one in operations
    ]
    with Admin(secured.inside) as admin:
        admin.create_acls(wanted).check()
        found = admin.describe_acls(AclFilter(ResourceType.TRANSACTIONAL_ID, name))
    assert set(found) == set(wanted)


def started(secured, name, *, is_two_phase=True):
    return Producer(
        config=secured.login("alice"),
        transactional_id=name,
        transaction_two_phase_commit_enable=is_two_phase,
    )


@pytest.mark.parametrize(
    "operations",
    [(), (Operation.WRITE,), (Operation.TWO_PHASE_COMMIT,)],
    ids=lambda operations: " ".join(one.name for one in operations) or "none",
)
def test_less_than_both_operations_is_refused(secured, operations):
    name = fresh("pay")
    allowed(secured, name, operations)
    with (
        pytest.raises(AuthorizationError, match="needs WRITE and TWO_PHASE_COMMIT") as refused,
        started(secured, name),
    ):
        pass
    assert refused.value.error_code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_both_operations_are_enough(secured):
    name = fresh("pay")
    allowed(secured, name, (Operation.WRITE, Operation.TWO_PHASE_COMMIT))
    with started(secured, name) as producer:
        assert producer.prepared is None
        producer.begin_transaction()
        assert str(producer.prepare_transaction()) == ""


def test_a_producer_with_a_timeout_needs_write_alone(secured):
    name = fresh("pay")
    allowed(secured, name, (Operation.WRITE,))
    with started(secured, name, is_two_phase=False) as producer:
        producer.begin_transaction()
        producer.abort_transaction()
