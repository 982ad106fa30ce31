"""Settings come from flags, the environment, a file and defaults; names that no program reads are refused."""

import json
import logging
import re
from pathlib import Path

import pytest
from scripts.settings_page import KINDS

from oncelog.errors import OncelogError
from oncelog.process.arguments import SettingsParser
from oncelog.process.config_file import ConfigFile
from oncelog.process.logs import Lines, LogFormat, LogLevel
from oncelog.process.names import FORMER, TABLES, table_of, variable_of
from oncelog.process.sources import Flag, Sources
from oncelog.process.variables import UP_NAMES, refuse_unknown_variables
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_server.cluster.environments import environment_of
from oncelog_server.cluster.os_process import ProcessRef
from oncelog_server.cluster.plan import ClusterShape, FreePorts, plan_members
from oncelog_server.cluster.state_file import ClusterState
from oncelog_server.settings import SET_BY_CLUSTER, EmbeddedSettings, embedded_settings
from oncelog_storage.settings import FlushPolicy, StorageSettings

ROOT = Path(__file__).resolve().parents[3]
STORAGE = (StorageSettings,)


def refusal(what, *arguments):
    with pytest.raises(OncelogError) as refused:
        what(*arguments)
    text = str(refused.value)
    assert "\n" not in text
    return text


def config(tmp_path, text):
    path = tmp_path / "oncelog.toml"
    path.write_text(text)
    return path


# ------------------------------------------------------------------------------------------------ variables


def test_a_misspelled_variable_is_refused_with_the_right_one():
    text = refusal(refuse_unknown_variables, KINDS, {"ONCELOG_STORAGE_FLUSH_POLICYY": "always"})
    assert "ONCELOG_STORAGE_FLUSH_POLICYY='always'" in text
    assert "did you mean ONCELOG_STORAGE_FLUSH_POLICY?" in text


def test_a_name_is_not_meant_for_itself():
    text = refusal(refuse_unknown_variables, KINDS, {"ONCELOG_STORAGE_NONSENSE": "1"})
    assert "did you mean" not in text


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ONCELOG_STORGE_FLUSH_POLICY", "ONCELOG_STORAGE_FLUSH_POLICY"),
        ("ONCELOG_COORDINATR_RETRY_BACKOFF_MS", "ONCELOG_COORDINATOR_RETRY_BACKOFF_MS"),
        ("ONCELOG_BOOTSTRP", "ONCELOG_BOOTSTRAP"),
        ("ONCELOG_DATTA", "ONCELOG_DATA"),
    ],
)
def test_one_role_knows_the_beginnings_of_the_others(written, meant):
    assert f"did you mean {meant}?" in refusal(refuse_unknown_variables, STORAGE, {written: "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ONCELOG_COORDINATOR_RETRY_BACKOFF_MS", "20"),
        ("ONCELOG_COORDINATOR_NOT_MINE_TO_JUDGE", "20"),
        ("oncelog_storage_flush_policy", "os"),
        ("ONCELOG_TEST_TARGET", "cluster"),
        ("ONCELOG_SERVICE_HOST", "10.0.0.7"),
        ("ONCELOG_STORAGE_SERVICE_PORT_KAFKA", "9092"),
        ("ONCELOG_STORAGE_PORT", "tcp://10.0.0.7:9092"),
        ("ONCELOG_PORT_9092_TCP_ADDR", "10.0.0.7"),
        ("HOME", "/root"),
    ],
)
def test_names_of_other_programs_are_left_to_them(name, value):
    assert refuse_unknown_variables(STORAGE, {name: value}) is None


def test_every_variable_of_the_projects_tests_and_tools_is_known():
    files = [
        ROOT / "Makefile",
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("oncelog_robustness/**/*.py"),
    ]
    read = re.compile(r"(?:environ(?:\.get\(|\[)\"|^\t)(ONCELOG_[A-Z0-9_]+)", re.MULTILINE)
    found = {name for file in files for name in read.findall(file.read_text())}
    assert "ONCELOG_TEST_TARGET" in found
    for name in found:
        refuse_unknown_variables(KINDS, {name: "1"})


def test_the_names_of_up_are_those_of_the_settings_classes():
    assert set(UP_NAMES) == {
        variable_of(EmbeddedSettings, name) for name in EmbeddedSettings.model_fields
    }
    assert {table_of(kind) for kind in KINDS} == set(TABLES)


def test_kubernetes_port_of_a_service_is_told_with_the_way_out():
    sources = Sources(environment={"ONCELOG_PORT": "tcp://10.0.0.7:9092"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONCELOG_PORT", "tcp://10.0.0.7:9092")
        assert "enableServiceLinks" in refusal(sources.read, EmbeddedSettings)


# ------------------------------------------------------------------------------------------------ the file


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path, monkeypatch):
    path = config(
        tmp_path,
        '[storage]\nflush_policy = "always"\nopen_files_max = 20\ncheckpoint_bytes = 2048\n',
    )
    monkeypatch.setenv("ONCELOG_STORAGE_OPEN_FILES_MAX", "30")
    monkeypatch.setenv("ONCELOG_STORAGE_CHECKPOINT_BYTES", "4096")
    flags = {"ONCELOG_STORAGE_CHECKPOINT_BYTES": Flag("--storage-checkpoint-bytes", "8192")}
    read = Sources.of_program(STORAGE, flags, path).read(StorageSettings)
    assert (read.flush_policy, read.open_files_max, read.checkpoint_bytes) == (
        FlushPolicy.ALWAYS,
        30,
        8192,
    )


def test_the_variable_names_the_file_where_no_flag_does(tmp_path, monkeypatch):
    monkeypatch.setenv("ONCELOG_CONFIG", str(config(tmp_path, "[storage]\nopen_files_max = 99\n")))
    assert Sources.of_program(STORAGE, {}, None).read(StorageSettings).open_files_max == 99


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '\n[storage]\nflush_policyy = "os"',
            ":3: [storage] flush_policyy is no setting (did you mean flush_policy?)",
        ),
        ("[storrage]\nx = 1", ":1: no program reads the table [storrage] (did you mean storage?)"),
        ("open_files_max = 99", ":1: open_files_max stands outside of every table"),
        ("[storage]\nopen_files_max = [1]", ":2: [storage] open_files_max is a list"),
        ("[storage]\nopen_files_max = ", "oncelog.toml:2: not TOML: "),
        ("[coordinator]\nx = {y = 1}", ":2: [coordinator] x is a dict"),
    ],
)
def test_what_a_file_cannot_say_is_refused_with_its_place(tmp_path, text, said):
    assert said in refusal(Sources.of_program, STORAGE, {}, config(tmp_path, text))


def test_a_wrong_value_in_a_file_is_told_with_its_place(tmp_path):
    path = config(tmp_path, "[storage]\n\nopen_files_max = true\n")
    text = refusal(Sources.of_program(STORAGE, {}, path).read, StorageSettings)
    assert f"{path}:3: [storage] open_files_max = 'true'" in text


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert "choose another file with --config" in refusal(ConfigFile.read, tmp_path / "none.toml")


def test_a_clusters_file_must_not_set_what_the_cluster_sets(tmp_path):
    members = plan_members(ClusterShape(), FreePorts(), port=0, gateway_port=0)
    state = ClusterState(members, postgres_url="postgresql://x")
    state.running["redis"] = ProcessRef(1, 0.0)
    given = {name for member in members for name in environment_of(member, state, tmp_path)}
    fixed = {
        f"ONCELOG_{table}_{key}".upper() for table, keys in SET_BY_CLUSTER.items() for key in keys
    }
    assert given <= fixed
    assert fixed - given == {
        "ONCELOG_CONTROLLER_CONTROLLER_ID",
        "ONCELOG_CONTROLLER_RPC_ADDRESS",
    }


# ------------------------------------------------------------------------------------------------ data, ephemeral


def sources_of(monkeypatch, flags, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return Sources({name: Flag("--x", value) for name, value in flags.items()})


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        ({"ONCELOG_DATA": "d", "ONCELOG_EPHEMERAL": True}, {}),
        ({"ONCELOG_DATA": "d"}, {"ONCELOG_EPHEMERAL": "true"}),
        ({}, {"ONCELOG_DATA": "d", "ONCELOG_EPHEMERAL": "true"}),
    ],
)
def test_a_data_folder_that_would_be_removed_is_refused(monkeypatch, flags, variables):
    sources = sources_of(monkeypatch, flags, variables)
    assert "removed at the end" in refusal(embedded_settings, sources)


def test_the_flag_for_ephemeral_data_wins_over_a_folder(monkeypatch):
    sources = sources_of(monkeypatch, {"ONCELOG_EPHEMERAL": True}, {"ONCELOG_DATA": "d"})
    assert embedded_settings(sources).ephemeral


# ------------------------------------------------------------------------------------------------ logs


def line_of(log_format):
    record = logging.LogRecord("oncelog_storage", logging.INFO, "", 0, 'a "%s"', ("b",), None)
    record.created = 0.25
    return Lines(11, log_format).format(record)


def test_both_formats_say_the_same_in_utc():
    assert line_of(LogFormat.LOGFMT) == (
        r'time=1970-01-01T00:00:00.250Z level=info node=11 at=oncelog_storage msg="a \"b\""'
    )
    assert json.loads(line_of(LogFormat.JSON)) == {
        "time": "1970-01-01T00:00:00.250Z",
        "level": "info",
        "node": 11,
        "at": "oncelog_storage",
        "msg": 'a "b"',
    }


def test_a_level_may_be_spelled_as_python_does():
    assert LogLevel("WARNING") is LogLevel.WARNING


# ------------------------------------------------------------------------------------------------ former names

OLD, NOW = (f"ONCELOG_COORDINATOR_{name}_CHECK_ENABLED" for name in ("STAMP", "ORIGIN"))


def test_every_former_name_is_of_a_setting_and_of_no_other():
    by_table = {table_of(kind): kind for kind in KINDS}
    for table, names in FORMER.items():
        fields = by_table[table].model_fields
        assert set(names.values()) <= set(fields)
        assert not set(names) & set(fields)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({OLD: "false"}, False),
        ({NOW: "false"}, False),
        ({OLD: "true", NOW: "false"}, False),
        ({OLD: "false", NOW: "true"}, True),
        ({}, True),
    ],
)
def test_a_variable_of_a_former_name_is_read(monkeypatch, environment, expected):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    refuse_unknown_variables((CoordinatorSettings,), environment)
    assert Sources().read(CoordinatorSettings).origin_check_enabled is expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("stamp_check_enabled = false", False),
        ("origin_check_enabled = true\nstamp_check_enabled = false", True),
        ("stamp_check_enabled = true\norigin_check_enabled = false", False),
    ],
)
def test_a_key_of_a_former_name_is_read(tmp_path, lines, expected):
    file = ConfigFile.read(config(tmp_path, f"[coordinator]\n{lines}\n"))
    file.refuse_unknown((CoordinatorSettings,), {})
    assert Sources(file=file).read(CoordinatorSettings).origin_check_enabled is expected


def test_a_flag_of_a_former_name_is_read():
    parser = SettingsParser("oncelog_coordinator", "A coordinator.", (CoordinatorSettings,))
    settings = parser.read(["--coordinator-stamp-check-enabled", "false"])[CoordinatorSettings]
    assert settings.origin_check_enabled is False


def test_a_wrong_value_names_the_former_name_that_gave_it(tmp_path, monkeypatch):
    monkeypatch.setenv(OLD, "perhaps")
    assert f"{OLD}='perhaps'" in refusal(Sources().read, CoordinatorSettings)
    monkeypatch.delenv(OLD)
    file = ConfigFile.read(config(tmp_path, "[coordinator]\nstamp_check_enabled = 7\n"))
    assert "oncelog.toml:2: " in refusal(Sources(file=file).read, CoordinatorSettings)
