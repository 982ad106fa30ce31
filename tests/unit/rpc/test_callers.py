"""Who may call what between processes: the architecture page and the policy say the same."""

import re
from pathlib import Path

from oncelog.rpc.callers import ALLOWED, ROLES, may_call
from oncelog.rpc.contract import PEER, SERVICES

PAGE = Path(__file__).parents[3] / "docs" / "architecture" / "README.md"
SERVICE_OF = {
    "controller": "Controller",
    "storage": "Storage",
    "coordinator": "TransactionCoordinator",
    "group coordinator": "GroupCoordinator",
    "marker sender": "MarkerSender",
    "process": "Process",
}


def table_of_the_page():
    section = PAGE.read_text().partition("## Who may call whom")[2].partition("\n## ")[0]
    found = {}
    for callers, called in re.findall(r"^\| (.+?) \| (.+?) \|", section, re.MULTILINE)[2:]:
        names = re.sub(r"\(.*?\)", "", callers).split(",")
        roles = ROLES if callers == "all" else [one.strip().replace(" ", "-") for one in names]
        target, methods = re.fullmatch(r"([a-z ]+) `([^`]+)`", called).groups()
        for name in methods.split():
            path = SERVICES[SERVICE_OF[target]].methods[name].path
            found.setdefault(path, set()).update(roles)
    return found


def test_the_policy_is_the_table_of_the_architecture_page():
    session = SERVICES[PEER].methods["Session"].path
    policy = {path: set(roles) for path, roles in ALLOWED.items() if path != session}
    assert policy == table_of_the_page()


def test_every_method_has_a_row():
    paths = {one.path for service in SERVICES.values() for one in service.methods.values()}
    assert set(ALLOWED) == paths


def test_a_method_without_a_row_is_nobodys():
    assert not any(may_call(role, "/oncelog.api.v1.Storage/Unheard") for role in ROLES)
    assert not may_call("", SERVICES["Controller"].methods["WatchMetadata"].path)
