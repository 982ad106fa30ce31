"""Every route has a role; what anybody may see is known by name."""

import pytest
from starlette.routing import Route

from oncelog.security.api_tokens import Role
from oncelog_gateway.access_guard import with_roles
from oncelog_gateway.core.route_roles import OPEN, ROLE_OF, without_role


def test_a_route_without_a_role_is_found():
    assert without_role([("GET", "/v1/topics"), ("GET", "/health"), ("GET", "/v1/secrets")]) == [
        ("GET", "/v1/secrets")
    ]


def test_no_route_is_open_and_has_a_role():
    assert not OPEN & ROLE_OF.keys()


def test_only_probes_the_login_and_its_files_are_open():
    assert {
        ("GET", "/health"),
        ("GET", "/ready"),
        ("GET", "/login"),
        ("POST", "/login"),
        ("POST", "/logout"),
        ("GET", "/console.js"),
        ("GET", "/console.css"),
    } == OPEN


def test_a_viewer_only_reads():
    viewer = {key for key, role in ROLE_OF.items() if role is Role.VIEWER}
    assert {method for method, _ in viewer} == {"GET", "HEAD"}


def test_what_loses_data_needs_an_admin():
    admin = {key for key, role in ROLE_OF.items() if role is Role.ADMIN}
    deletes = {key for key in ROLE_OF if key[0] == "DELETE"}
    taken_back = {
        ("DELETE", "/v1/nodes/{node_id}/drain"),
        ("DELETE", "/v1/reassignments/{topic}"),
    }
    assert deletes - admin == taken_back


def test_a_gateway_with_a_route_without_a_role_does_not_start():
    with pytest.raises(AssertionError, match="/v1/new"):
        with_roles([Route("/v1/new", endpoint=lambda: None)])
