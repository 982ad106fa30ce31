"""Which scenario a seed plays when none is asked for."""

from robustness.scenario import FOLDER, load_scenario
from robustness.simulator.command import scenario_of

SCENARIOS = [load_scenario(path.stem) for path in sorted(FOLDER.glob("*.toml"))]
IN_TURN = [one for one in SCENARIOS if one.one_seed_in is None]


def test_scenarios_take_turns_and_a_rare_one_has_seeds_of_its_own():
    played = [scenario_of(SCENARIOS, seed).name for seed in range(1, 201)]
    assert set(played) == {one.name for one in SCENARIOS}
    for one in SCENARIOS:
        if one.one_seed_in is not None:
            assert played.count(one.name) == 200 // one.one_seed_in
    assert played[0] == IN_TURN[1 % len(IN_TURN)].name


def test_a_rare_one_moves_no_other_seed():
    for seed in range(1, 200):
        played = scenario_of(SCENARIOS, seed)
        assert played.one_seed_in is not None or played is scenario_of(IN_TURN, seed)


def test_a_rare_one_alone_plays_every_seed():
    rare = [one for one in SCENARIOS if one.one_seed_in is not None]
    assert [scenario_of(rare[:1], seed) for seed in (1, 2, 40)] == rare[:1] * 3
