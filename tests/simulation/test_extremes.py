"""Settings that are drawn from the seed are settings that production accepts."""

import random

import pytest
from oncelog_robustness.simulator import extremes
from tests.simulation.small_world import in_small_world

from oncelog.topic_config import checked_overrides
from oncelog_controller.settings import ControllerSettings
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_listener.settings import ListenerSettings
from oncelog_marker_sender.settings import MarkerSenderSettings
from oncelog_storage.core import batch_walk
from oncelog_storage.settings import StorageSettings

KINDS = [
    (StorageSettings, extremes.STORAGE, extremes.draw_storage_settings),
    (ControllerSettings, extremes.CONTROLLER, extremes.draw_controller_settings),
    (CoordinatorSettings, extremes.COORDINATOR, extremes.draw_coordinator_settings),
    (ListenerSettings, extremes.LISTENER, extremes.draw_listener_settings),
    (MarkerSenderSettings, extremes.MARKER_SENDER, extremes.draw_marker_sender_settings),
]


@pytest.mark.parametrize(("settings", "drawn_settings", "draw_settings"), KINDS)
def test_every_value_is_one_that_production_accepts(
    settings, drawn_settings, draw_settings, monkeypatch
):
    for name, setting in drawn_settings.items():
        for value in (*setting.ordinary, *setting.extreme):
            monkeypatch.setenv(settings.model_config["env_prefix"] + name, str(value))
            assert str(getattr(settings(), name.lower())) == str(value)
        monkeypatch.undo()


@pytest.mark.parametrize(("settings", "drawn_settings", "draw_settings"), KINDS)
def test_a_seed_draws_one_set_and_seeds_draw_all_values(settings, drawn_settings, draw_settings):
    prefix = settings.model_config["env_prefix"]
    drawn = [draw_settings(random.Random(seed)) for seed in range(300)]
    assert drawn[7] == draw_settings(random.Random(7))
    for name, setting in drawn_settings.items():
        values = {environment[prefix + name] for environment in drawn}
        assert values == {str(value) for value in (*setting.ordinary, *setting.extreme)}
    calm = draw_settings(random.Random(1), wildness=0.0)
    assert all(
        calm[prefix + name] in map(str, setting.ordinary)
        for name, setting in drawn_settings.items()
    )


def test_topics_are_drawn_within_the_bounds_of_their_configs():
    drawn = [extremes.draw_topic_config(random.Random(seed)) for seed in range(200)]
    assert {} in drawn
    assert {name for overrides in drawn for name in overrides} == set(extremes.TOPIC)
    for overrides in drawn:
        checked_overrides(overrides)


def test_constants_are_replaced_in_the_whole_interpreter():
    def steps(small):
        drawn = extremes.replace_constants(small.world.streams.stream("settings"), wildness=9.0)
        return drawn, batch_walk._SCAN_BYTES

    drawn, scan_bytes = in_small_world(1, steps)
    assert scan_bytes == drawn["_SCAN_BYTES"] <= 1024 < batch_walk._SCAN_BYTES
    assert drawn["PRODUCER_ID_BLOCK_SIZE"] <= 2
