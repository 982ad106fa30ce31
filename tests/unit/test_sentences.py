"""A reader takes a sentence in at once: at most 25 words, in documents, docstrings and comments (docs/style.md).

A parenthesis does not count, and code within a sentence is one word. Tables, lists of files and pictures are no
sentences.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDS_MAX = 25
GENERATED = {"docs/settings.md", "docs/kafka-facts.md"}
DOCSTRING = re.compile(r'^[ ]*r?"""(?=[^\s,)])(.*?)"""', re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"(?:^[ ]*#.*\n)+", re.MULTILINE)
FENCE = re.compile(r"^[ ]*```.*?^[ ]*```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"``?[^`]+``?")
PARENTHESIS = re.compile(r"\([^()]*\)")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
ITEM = re.compile(r"^\s*([-*]|\d+\.)\s")
END = re.compile(r"(?<=[.!?:;])[*\"”]*\s+")


def documents():
    found = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "services").glob("*/*.md"),
    ]
    return [path for path in found if str(path.relative_to(ROOT)) not in GENERATED]


def programs():
    folders = ("src", "services", "oncelog_robustness", "bench", "scripts", "tests")
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return [path for path in found if "api" not in path.parts]


def paragraphs(text):
    """A row of a table, an item of a list and a line that is set apart are paragraphs of their own."""
    text = LINK.sub(r"\1", FENCE.sub("", text))
    lines = []
    for line in text.split("\n"):
        bare = line.strip()
        if (
            not bare
            or bare.startswith(("|", "#"))
            or "─" in bare
            or "│" in bare
            or ITEM.match(line)
        ):
            yield " ".join(lines)
            lines = []
        if bare.startswith("|"):
            yield from bare.split("|")
        elif bare and "─" not in bare and "│" not in bare:
            # Two blanks within a line make it a row.
            columns = re.split(r"(?<=\S)\s{2,}(?=\S)", ITEM.sub("", line).strip())
            if len(columns) > 1:
                yield " ".join(lines)
                lines = []
                yield from columns
            else:
                lines.append(columns[0])
    yield " ".join(lines)


def written(path):
    """The texts of a program: its docstrings, and the comments that follow each other."""
    source = path.read_text()
    yield from DOCSTRING.findall(source)
    for comment in COMMENT.findall(source):
        yield re.sub(r"^\s*# ?", "", comment, flags=re.MULTILINE)


def long_sentences(text):
    for paragraph in paragraphs(text):
        plain = CODE.sub("code", paragraph)
        while (shorter := PARENTHESIS.sub("", plain)) != plain:
            plain = shorter
        for sentence in END.split(plain):
            if len(sentence.split()) > WORDS_MAX:
                yield sentence


@pytest.mark.parametrize("found", [documents, programs])
def test_no_sentence_is_too_long(found):
    long = []
    for path in found():
        texts = [path.read_text()] if path.suffix == ".md" else written(path)
        long += [
            f"{path.relative_to(ROOT)}: {len(one.split())} words: {one}"
            for text in texts
            for one in long_sentences(text)
        ]
    assert not long, "\n".join(long)


def test_a_long_sentence_is_found():
    words = " ".join(["word"] * (WORDS_MAX + 1))
    assert list(long_sentences(f"A short one. {words}.")) == [f"{words}."]
    assert not list(long_sentences(f"word `{words}` ({words}) word."))
