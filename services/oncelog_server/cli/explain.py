"""Prints the answer of `oncelog transactions explain`: the verdict first, then the findings, then the
commands to type.
"""

from oncelog_server.cli.rest import Answer
from oncelog_server.cli.tables import printable, say, show_paragraph
from oncelog_server.cli.transaction_answers import Explanation


def show_explanation(found: Explanation) -> None:
    found = _printable(found)
    show_paragraph(found["verdict"], style="bold")
    for finding in found["findings"]:
        show_paragraph(finding, bullet="- ")
    if found["next_commands"]:
        show_paragraph("")
        show_paragraph("Next:")
    for one in found["next_commands"]:
        # In one line, however long: it is there to be copied.
        say(f"  {one['command']}")
        mark = "" if one["is_safe"] else "CHANGES DATA: "
        show_paragraph(f"{mark}{one['does']}", indent=6)
    for unknown in found["unknown"]:
        show_paragraph(f"Not known: {unknown}")
    evidence = (f"{one['name']} {one['value']} ({one['source']})" for one in found["evidence"])
    show_paragraph("")
    show_paragraph("; ".join((found["incident"], *evidence)))


def _printable(found: Answer) -> Answer:
    """Return the answer with the control characters of its texts replaced, because names may contain what moves a
    terminal's cursor.
    """
    if isinstance(found, dict):
        return {name: _printable(value) for name, value in found.items()}
    if isinstance(found, list):
        return [_printable(one) for one in found]
    return printable(found) if isinstance(found, str) else found
