"""What ACLs call a transactional id that oncelog gave."""

import pytest

from oncelog.ids import acl_name_of, branch_transactional_id, job_sink_name


@pytest.mark.parametrize("name", ["pay", "a/b", "50%2F", "%25/x", "", "ünï"])
def test_a_branch_and_a_job_have_the_name_people_chose(name):
    job = job_sink_name(name, "2024/01")
    assert acl_name_of(name) == name
    assert acl_name_of(branch_transactional_id(name, 7, 3)) == name
    assert acl_name_of(job_sink_name(name, None)) == name
    assert acl_name_of(job) == name
    assert acl_name_of(branch_transactional_id(job, 7, 3)) == name
