"""`oncelog transactions explain`: the verdict first, then how it came to that, then what to type."""

from typing import Any

from oncelog_server.cli.tables import show_paragraph


def show_explanation(found: dict[str, Any]) -> None:
    show_paragraph(found["verdict"], style="bold")
    for finding in found["findings"]:
        show_paragraph(finding, bullet="- ")
    if found["next_commands"]:
        show_paragraph("")
        show_paragraph("Next:")
    for one in found["next_commands"]:
        show_paragraph(one["command"], indent=2)
        mark = "" if one["is_safe"] else "CHANGES DATA: "
        show_paragraph(f"{mark}{one['does']}", indent=6)
    for unknown in found["unknown"]:
        show_paragraph(f"Not known: {unknown}")
    told = (f"{one['name']} {one['value']} ({one['source']})" for one in found["evidence"])
    show_paragraph("")
    show_paragraph("; ".join((found["incident"], *told)))
