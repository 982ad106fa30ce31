"""README and the Spark page show one first program; `tests/spark/test_spark_snippet.py` runs it."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def program_of(page):
    (program,) = re.findall(
        r"```python\n(import os, sys\n.*?)```", (ROOT / page).read_text(), re.DOTALL
    )
    return program


def test_readme_and_the_spark_page_have_the_same_first_program():
    assert program_of("README.md") == program_of("docs/spark.md")
