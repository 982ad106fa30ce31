"""`oncelog cluster up` with names and values that cannot be: one line, before anything starts."""

import pytest

from oncelog_server.cli import run


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[listener]\nport = 1",
            ":2: [listener] port is not yours to set here: `oncelog cluster` takes [cluster] port",
        ),
        ("[storage]\ndata_dir = 'x'", "keeps it in the cluster's --folder"),
        (
            "[coordinator]\nretry_backoff = 1",
            ":2: [coordinator] retry_backoff is no setting (did you mean retry_backoff_ms?)",
        ),
        ("[cluster]\nport = 'x'", ":2: [cluster] port = 'x'"),
        ("[controller]\nlease_ms = 1", ":2: [controller] lease_ms = '1'"),
    ],
)
def test_a_file_that_no_process_could_read_starts_nothing(tmp_path, capsys, text, said):
    file = tmp_path / "oncelog.toml"
    file.write_text(text)
    folder = tmp_path / "cluster"
    assert run(["cluster", "up", "--folder", str(folder), "--config", str(file)]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not folder.exists()


def test_a_variable_that_no_process_reads_starts_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ONCELOG_STORAGE_FLUSH_POLICYY", "always")
    assert run(["cluster", "up", "--folder", str(tmp_path / "cluster")]) == 1
    assert "did you mean ONCELOG_STORAGE_FLUSH_POLICY?" in capsys.readouterr().err
    assert not (tmp_path / "cluster").exists()
