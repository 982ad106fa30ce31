"""Messages send nobody to a file that an installed oncelog does not have."""

from pathlib import Path

from oncelog.process import documents


def test_a_clone_names_the_file_and_a_wheel_its_address(monkeypatch, tmp_path):
    assert documents.page("settings.md") == "docs/settings.md"
    monkeypatch.setattr(documents, "_CLONE", tmp_path)
    found = documents.page("settings.md")
    assert found.startswith("https://")
    assert found.endswith("/docs/settings.md")


def test_no_message_names_the_file_itself():
    root = Path(documents.__file__).parents[3]
    programs = [*(root / "src").rglob("*.py"), *(root / "services").rglob("*.py")]
    named = [one.name for one in programs if "docs/settings.md" in one.read_text()]
    assert sorted(named) == ["documents.py"]
