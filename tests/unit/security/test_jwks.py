"""When keys are read again, when not, and what is said when they cannot be."""

import json
import threading

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from oncelog.security.jwks import CachedKeys, KeysUnavailableError, keys_of, keys_of_file
from oncelog.security.sasl import TokenRefusedError


def key_set(*kids):
    algorithm = jwt.get_algorithm_by_name("ES256")
    keys = [ec.generate_private_key(ec.SECP256R1()).public_key() for _ in kids]
    made = [algorithm.to_jwk(key, as_dict=True) for key in keys]
    return json.dumps({"keys": [{**one, "kid": kid} for one, kid in zip(made, kids, strict=True)]})


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class Provider:
    """Answers with what it holds; an exception is raised."""

    def __init__(self, holds):
        self.holds = holds
        self.count = 0

    def __call__(self):
        self.count += 1
        if isinstance(self.holds, Exception):
            raise self.holds
        return self.holds.encode()


@pytest.fixture
def clock():
    return Clock()


def cached(provider, clock, said=None):
    report = [].append if said is None else said.append
    return CachedKeys(provider, "the provider", report, age_max_s=3600, retry_s=5, clock=clock)


def kids(source):
    found = source.keys()
    return [key.kid for key in found]


def test_keys_are_read_once_until_they_are_old(clock):
    provider = Provider(key_set("a"))
    source = cached(provider, clock)
    for _ in range(3):
        assert kids(source) == ["a"]
    clock.now += 3599
    assert (kids(source), provider.count) == (["a"], 1)
    provider.holds = key_set("b")
    clock.now += 1
    assert (kids(source), provider.count) == (["b"], 2)


def test_invented_key_ids_make_few_fetches(clock):
    provider = Provider(key_set("a"))
    source = cached(provider, clock)
    kids(source)
    for _ in range(1000):
        clock.now += 0.01  # 10 s in all
        source.refresh()
    assert provider.count <= 3


def test_a_new_key_is_found_by_a_refresh(clock):
    provider = Provider(key_set("a"))
    source = cached(provider, clock)
    kids(source)
    provider.holds = key_set("a", "b")
    assert source.refresh() is False  # it read them a moment ago
    clock.now += 5
    assert source.refresh() is True
    assert kids(source) == ["a", "b"]


def test_the_last_keys_serve_while_the_provider_is_away(clock):
    said, provider = [], Provider(key_set("a"))
    source = cached(provider, clock, said)
    kids(source)
    provider.holds = KeysUnavailableError("https://id/keys: connection refused")
    for _ in range(4):
        clock.now += 3600
        assert kids(source) == ["a"]
    assert said[1:] == [
        "token keys not read, the former ones stay in use: https://id/keys: connection refused"
    ]
    provider.holds = key_set("b")
    clock.now += 5
    assert kids(source) == ["b"]
    assert said[2:] == ["token keys read from the provider: b"]


def test_damaged_keys_do_not_replace_good_ones(clock):
    said, provider = [], Provider(key_set("a"))
    source = cached(provider, clock, said)
    kids(source)
    provider.holds = "<html>"
    clock.now += 5
    assert source.refresh() is False
    assert kids(source) == ["a"]
    assert "the provider: it is no JSON Web Key Set" in said[-1]


def test_without_any_keys_a_token_is_refused(clock):
    provider = Provider(KeysUnavailableError("https://id/keys: timed out"))
    source = cached(provider, clock)
    for _ in range(3):
        with pytest.raises(TokenRefusedError, match=r"no keys .* https://id/keys: timed out"):
            source.keys()
    assert provider.count == 1
    provider.holds = key_set("a")
    clock.now += 5
    assert kids(source) == ["a"]


def test_one_thread_fetches_and_the_others_do_not_wait(clock):
    provider, entered, leave = Provider(key_set("a")), threading.Event(), threading.Event()

    def slow():
        if provider.count:
            entered.set()
            assert leave.wait(10)
        return provider()

    source = cached(slow, clock)
    kids(source)
    clock.now += 3600
    fetching = threading.Thread(target=source.keys)
    fetching.start()
    assert entered.wait(10)
    try:
        assert kids(source) == ["a"]
        assert provider.count == 1
    finally:
        leave.set()
        fetching.join(10)
    assert provider.count == 2


def test_a_changed_file_is_seen_after_a_second(tmp_path, clock):
    path = tmp_path / "keys.json"
    path.write_text(key_set("a"))
    source = keys_of_file(path, [].append, clock)
    assert kids(source) == ["a"]
    path.write_text(key_set("b"))
    assert kids(source) == ["a"]
    clock.now += 1
    assert kids(source) == ["b"]


def test_a_missing_file_is_named(tmp_path):
    path = tmp_path / "keys.json"
    with pytest.raises(TokenRefusedError, match=f"{path}: No such file or directory"):
        keys_of(str(path), [].append).keys()


@pytest.mark.parametrize("url", ["http://id/keys", "file:///etc/passwd", "ftp://id/keys"])
def test_keys_come_over_https_alone(url):
    with pytest.raises(ValueError, match=f"^{url}: keys come over https"):
        keys_of(url, [].append)
