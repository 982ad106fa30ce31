"""A scenario file whose names or values nobody knows is refused before anything runs, in one line."""

import random
from pathlib import Path

import pytest
from oncelog_robustness import scenario as scenarios
from oncelog_robustness.fault_plan import OF_MACHINES, FaultKind
from oncelog_robustness.scenario import FOLDER, STORMS, load_scenario

from oncelog.errors import OncelogError

PLANTED = FOLDER.parent / "planted" / "scenarios"
HEAD = 'name = "mine"\nduration_ms = 1_000\n'
WORK = '[[workloads]]\nkind = "plain"\n'
KILL = "[storm.kill]\nper_minute = 6\n"


@pytest.fixture
def refused(tmp_path):
    """What is said of a file with this text."""
    path = tmp_path / "mine.toml"

    def refuse(text):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(OncelogError) as caught:
            load_scenario(str(path))
        output = str(caught.value)
        assert "\n" not in output
        assert "mine.toml" in output
        return output

    return refuse


@pytest.mark.parametrize(
    "path",
    [*FOLDER.glob("*.toml"), *FOLDER.glob("asked/*.toml"), *PLANTED.glob("*.toml")],
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_every_scenario_there_is_loads(path):
    found = load_scenario(str(path))
    assert found.storm_of(random.Random(1)) is not None


def test_an_unknown_target_is_refused_with_the_known_ones(refused):
    output = refused(HEAD + WORK + KILL + 'targets = ["storage", "strage"]\n')
    assert "storm.kill.targets: there is no target 'strage'; did you mean storage?" in output
    assert "there are: controller, storage, coordinator, marker-sender, listener, " in output
    assert "storage-3, " in output


@pytest.mark.parametrize(
    ("kind", "target", "named"),
    [
        ("kill", "storage-4", "there is no target 'storage-4'"),
        ("kill", "any", "there is no target 'any'"),
        ("slow-disk", "database", "there is no target 'database'"),
        ("kill", "storage+listener", "there is no target 'storage+listener'"),
        ("kill-all", "storage-1", "there is no target 'storage-1'"),
        ("rolling-restart", "strage", "there is no target 'strage'"),
        ("client-kill", "storage", "there is no target 'storage'; there are: any"),
        ("move", "storage", "there are: any"),
        ("operate", "some", "there are: any"),
        ("database-outage", "storage", "there are: database, controller, controller-1"),
        ("database-outage", "contrller", "did you mean controller?"),
        ("redis-outage", "redis", "storm.redis-outage: no storm has it"),
        ("partition-pair", "storage", "'storage' is no pair A+B"),
        ("partition-pair", "storage+listener+storage", "is no pair A+B"),
        ("partition-pair", "storage+lisener", "in the pair 'storage+lisener' there is no target"),
        ("partition-pair", "storage-1+storage-1", "is one process"),
    ],
)
def test_what_a_kind_of_fault_cannot_strike_is_refused(refused, kind, target, named):
    output = refused(HEAD + WORK + f'[storm.{kind}]\nper_minute = 6\ntargets = ["{target}"]\n')
    assert named in output
    assert f"storm.{kind}" in output


def test_a_pair_needs_two_processes_of_the_shape(refused):
    output = refused(
        f"{HEAD}{WORK}[shape]\ncontrollers = 1\n"
        '[storm.partition-pair]\nper_minute = 6\ntargets = ["controller+controller"]\n'
    )
    assert "controller+controller has no two processes in this [shape]" in output


def test_a_storm_file_is_held_against_the_scenario(tmp_path, monkeypatch):
    """Its targets must be there in the cluster that the scenario has, and the message names the storm's file."""
    monkeypatch.setattr(scenarios, "STORMS", tmp_path)
    (tmp_path / "typo.toml").write_text('[kill]\nper_minute = 6\ntargets = ["strage"]\n')
    (tmp_path / "third.toml").write_text('[kill]\nper_minute = 6\ntargets = ["storage-3"]\n')
    (tmp_path / "kind.toml").write_text('[kil]\nper_minute = 6\ntargets = ["storage"]\n')
    path = tmp_path / "mine.toml"

    def load(storm, shape=""):
        path.write_text(f'{HEAD}storms = ["{storm}"]\n{WORK}{shape}')
        return load_scenario(str(path))

    with pytest.raises(OncelogError, match=r"typo\.toml: kill\.targets: there is no target 'stra"):
        load("typo")
    with pytest.raises(OncelogError, match=r"kind\.toml: there is no fault 'kil'; did you mean"):
        load("kind")
    with pytest.raises(OncelogError, match=r"mine\.toml: storms: there is no storm 'nosuch'"):
        load("nosuch")
    assert load("third").storms == ("third",)
    with pytest.raises(OncelogError, match=r"third\.toml: .* there is no target 'storage-3'"):
        load("third", "[shape]\nstorage = 2\n")


@pytest.mark.parametrize("storm", sorted(STORMS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_storm_fits_a_cluster_of_one_process_a_role(storm, tmp_path):
    """A pair of one role strikes nobody there, others of the same fault do."""
    one = "".join(
        f"{role} = 1\n"
        for role in ("controllers", "storage", "coordinators", "marker_senders", "listeners")
    )
    path = tmp_path / "mine.toml"
    path.write_text(f'{HEAD}storms = ["{storm.stem}"]\n{WORK}[shape]\n{one}')
    load_scenario(str(path)).storm_of(random.Random(1))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (HEAD + WORK + '[storm.kil]\nper_minute = 6\ntargets = ["storage"]\n', "no fault 'kil'"),
        (HEAD + WORK + KILL + 'target = ["storage"]\n', "storm.kill: there is no key 'target'"),
        (HEAD + WORK + KILL, "storm.kill.targets is missing"),
        (HEAD + WORK + KILL + "targets = []\n", "storm.kill.targets = []"),
        (
            HEAD + WORK + KILL + 'targets = ["storage"]\nlasts_ms = [9, 1]\n',
            "lasts_ms = [9, 1] must be [the least, the most]",
        ),
        (
            HEAD + WORK + KILL + 'targets = ["storage"]\nlasts_ms = [-1, 1]\n',
            "storm.kill.lasts_ms.0 = -1",
        ),
        (HEAD + WORK + "[shape]\nstorages = 3\n", "shape: there is no key 'storages'"),
        (HEAD + WORK + "[shape]\nstorage = 10\n", "shape.storage = 10"),
        (HEAD + WORK + "[shape]\nstorage = true\n", "shape.storage = True"),
        (HEAD + 'storm = "calm"\n' + WORK, "storm = 'calm'"),
        (HEAD + 'stroms = ["calm"]\n' + WORK, "no key 'stroms'; did you mean storms?"),
        (HEAD + "intensity = [2.0, 0.2]\n" + WORK, "intensity = [2.0, 0.2] must be"),
        (HEAD + "intensity = [-1.0, -0.5]\n" + WORK, "intensity.0 = -1.0"),
        (HEAD + "intensity = [nan, nan]\n" + WORK, "intensity.0 = nan"),
        (HEAD, "workloads is missing"),
        ('duration_ms = 5\nname = "a/b"\n' + WORK, "name = 'a/b'"),
        (WORK, "name is missing; duration_ms is missing"),
        ("", "name is missing"),
        ("[kill]\n[delay]\n[reset]\n", "workloads is missing; and 3 more"),
        ("no toml at all", "mine.toml is no TOML: "),
        (b"\xff\xfe\x00", "mine.toml is no TOML: "),
    ],
)
def test_keys_and_values_that_cannot_be_are_refused(refused, text, named):
    assert named in refused(text)


@pytest.mark.parametrize(
    ("workload", "named"),
    [
        ('kind = "gossip"', "workload 2: there is no workload 'gossip'; there are: bank, churn"),
        ('kind = "transaction"', "did you mean transactions?"),
        ("kind = 7", "there is no workload 7"),
        ("writers = 3", "workload 2: kind is missing; there are: bank, churn"),
        ('kind = "plain"\nwriter = 3', "workload 2 (plain): there is no key 'writer'; did you"),
        ('kind = "plain"\nwriters = "many"', "workload 2 (plain): writers = 'many'"),
        ('kind = "plain"\nwriters = true', "workload 2 (plain): writers = True"),
        ('kind = "plain"\nwriters = 65', "workload 2 (plain): writers = 65"),
        ('kind = "plain"\nname = 3', "workload 2 (plain): name = 3 is no text"),
        ('kind = "plain"\nname = "a b"', "workload 2 (plain): name = 'a b' is no text"),
    ],
)
def test_workloads_that_cannot_be_are_refused(refused, workload, named):
    assert named in refused(f"{HEAD}{WORK}[[workloads]]\n{workload}\n")


def test_a_caller_may_have_other_kinds_of_workloads(tmp_path):
    path = Path(tmp_path / "mine.toml")
    path.write_text(HEAD + '[[workloads]]\nkind = "steady"\npartitions = 2\n')
    with pytest.raises(OncelogError, match="there is no workload 'steady'"):
        load_scenario(str(path))
    from oncelog_robustness.chaos.steady import SteadyParameters

    assert load_scenario(str(path), {"steady": SteadyParameters}).name == "mine"


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        (
            'ONCELOG_STORAGE_FLUSH_POLICI = "os"',
            "no process has a setting 'ONCELOG_STORAGE_FLUSH_POLICI'; "
            "did you mean ONCELOG_STORAGE_FLUSH_POLICY?",
        ),
        ('STORAGE_FLUSH_POLICY = "os"', "did you mean ONCELOG_STORAGE_FLUSH_POLICY?"),
        ('PATH = "/"', "no process has a setting 'PATH'; python -m oncelog_storage --help"),
        ('ONCELOG_X = "1"', "'ONCELOG_X'; python -m oncelog_storage --help lists a role's"),
        ('ONCELOG_STORAGE_FLUSH_POLICY = "allways"', "ONCELOG_STORAGE_FLUSH_POLICY = 'allways': "),
        ('ONCELOG_CONTROLLER_LEASE_MS = "soon"', "ONCELOG_CONTROLLER_LEASE_MS = 'soon': "),
        ("ONCELOG_CONTROLLER_LEASE_MS = 1500", "settings.ONCELOG_CONTROLLER_LEASE_MS = 1500: "),
    ],
)
def test_settings_that_no_process_takes_are_refused(refused, setting, named):
    assert named in refused(f"{HEAD}{WORK}[settings]\n{setting}\n")


def test_every_kind_of_fault_says_what_it_strikes():
    names = scenarios.Shape().names()
    for kind in FaultKind:
        there = scenarios.storm_targets(kind, scenarios.ROLES, names)
        of_chaos = kind is FaultKind.REDIS_OUTAGE or kind in OF_MACHINES
        assert bool(there) != of_chaos


def test_a_key_of_an_upgrade_that_is_not_there_is_refused(refused):
    output = refused(HEAD + WORK + '[upgrade]\noldr = "last"\n')
    assert (
        "upgrade: there is no key 'oldr'; did you mean older? there are: older, without" in output
    )
