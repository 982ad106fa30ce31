"""docs/settings.md says what the settings classes say."""

from pathlib import Path

from scripts.settings_page import page

PAGE = Path(__file__).resolve().parents[3] / "docs/settings.md"


def test_the_settings_page_is_made_from_the_settings_classes():
    is_same = PAGE.read_text() == page()
    assert is_same, "a setting has changed: run `make docs-settings` and commit docs/settings.md"
