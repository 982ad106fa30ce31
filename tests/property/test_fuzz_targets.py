"""The fuzzer's targets (`make fuzz`) in the gate: what our own encoders make, and that with changes of chance.

The same changes each time, and no more than seconds of them: atheris finds what these do not.
"""

import random

import pytest
from tests.fuzz.targets import TARGETS, target

CHANGED = {"tokens": 2_000}
CHANGED_OTHERS = 8_000
CHANGES_MAX = 4
EDGES = (b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00" * 8)


def changed(seeds, chance):
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, CHANGES_MAX)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                edge = chance.choice(EDGES)
                data[at : at + len(edge)] = edge
            case 2:
                del data[at : at + chance.randint(1, 16)]
            case 3:
                data[at:at] = chance.randbytes(chance.randint(1, 16))
            case 4:
                other = chance.choice(seeds)
                data[at:] = other[chance.randrange(len(other) + 1) :]
            case _:
                data[at:at] = data[at : at + chance.randint(1, 64)]
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_changed_inputs_are_accepted_or_refused(name):
    chosen, chance = target(name), random.Random(name)
    seeds = chosen.seeds()
    answers = set()
    for _ in range(CHANGED.get(name, CHANGED_OTHERS)):
        data = changed(seeds, chance)
        try:
            answers.add(chosen.fed(data))
        except Exception as error:
            pytest.fail(f"{name} breaks on bytes.fromhex({data.hex()!r}): {error!r}")
    assert answers == {True, False}
