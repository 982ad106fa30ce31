"""README leads to one first Spark program on the Spark page; `tests/spark/test_spark_snippet.py` runs it."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SECTION = "## Ten lines\n"


def test_readme_leads_to_the_first_program():
    assert "(docs/spark.md#ten-lines)" in (ROOT / "README.md").read_text()
    page = (ROOT / "docs" / "spark.md").read_text()
    section = page[page.index(SECTION) + len(SECTION) :].split("\n## ")[0]
    assert len(re.findall(r"```python\nimport os, sys\n.*?```", section, re.DOTALL)) == 1


def test_there_is_no_second_first_program_to_drift_from_it():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert sum("```python\nimport os, sys\n" in page.read_text() for page in pages) == 1
