"""Creates the topics of the demo."""

from oncelog.client.blocking import Admin
from oncelog.client.core.admin_results import NewTopic
from oncelog.client.errors import ClientError
from oncelog_server.cli.client_config import login_properties
from oncelog_server.demo.scenario import Scenario

PARTITIONS = 4
CALL_TIMEOUT_MS = 20_000


def make_topics(bootstrap: str, scenario: Scenario) -> dict[str, ClientError | None]:
    """Create all topics of a scenario. Returns for each topic the error why it could not be created, or None. Raises
    ClientError when no listener answers.
    """
    found: dict[str, ClientError | None] = {}
    with Admin(
        str(bootstrap), login_properties(bootstrap), default_api_timeout_ms=CALL_TIMEOUT_MS
    ) as admin:
        for name in (scenario.input_topic, *scenario.output_topics):
            try:
                admin.create_topic(NewTopic(name, PARTITIONS))
                found[name] = None
            except ClientError as error:
                found[name] = error
    return found
