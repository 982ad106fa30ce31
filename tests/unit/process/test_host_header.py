"""Which Host headers are those of this machine (DNS rebinding)."""

import pytest

from oncelog.process.host_header import AllowedHosts, configured_names, host_of


@pytest.mark.parametrize(
    "header",
    [
        "localhost",
        "LOCALHOST:8080",
        "localhost:",
        "[::1]:",
        "[::ffff:127.0.0.1]",
        "[::ffff:127.8.9.10]:8080",
        "[::ffff:192.0.2.7]:8080",
        "localhost.:80",
        "127.0.0.1",
        "127.8.9.10:1",
        "[::1]",
        "[::1]:8080",
        "oncelog.internal:443",
        "192.0.2.7:8080",
    ],
)
def test_loopback_bound_and_configured_hosts_are_allowed(header):
    assert AllowedHosts("192.0.2.7", "oncelog.internal, other").allows(header)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "localhost:8080:9",
        "localhost/",
        "[::1",
        "[::1]x",
        "[::1].evil.example",
        "::1",
        "192.0.2.8",
        "[::ffff:192.0.2.8]",
        "localhost:٣",
        "127.0.0.1, evil.example",
    ],
)
def test_every_other_host_is_refused(header):
    assert not AllowedHosts("192.0.2.7", "oncelog.internal").allows(header)


def test_a_server_on_every_address_takes_addresses_not_names():
    hosts = AllowedHosts("0.0.0.0")
    assert hosts.allows("192.0.2.8:8080")
    assert hosts.allows("[2001:db8::1]:8080")
    assert not hosts.allows("evil.example")


def test_a_configured_host_with_a_port_or_a_path_is_named():
    assert configured_names(" a.example ,::1,") == ["a.example", "::1"]
    for wrong in ("a.example:80", "https://a.example", "*"):
        with pytest.raises(ValueError, match="is no host"):
            configured_names(f"ok, {wrong}")


def test_the_host_is_read_without_its_port():
    assert host_of("[::1]:80") == "::1"
    assert host_of("a.example:80") == "a.example"
    assert host_of("a.example:x") == ""
