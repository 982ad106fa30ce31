"""What the fuzzer starts from reaches the depth of its target, and cut or changed bytes are refused."""

import pytest
from tests.fuzz.targets import TARGETS, target


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_is_accepted(name):
    seeds = target(name).seeds()
    assert seeds
    assert all(target(name).fed(seed) for seed in seeds)


@pytest.mark.parametrize("name", TARGETS)
def test_a_changed_seed_is_no_finding(name):
    for seed in target(name).seeds()[:20]:
        for changed in (seed[:-1], seed[: len(seed) // 2], seed + b"\xff", b"\xff" + seed, b""):
            target(name).fed(changed)
