"""Adds what the system of an image is made of to its list of parts (SBOM), which knows Python's packages.

    python sbom.py STATUS OS_RELEASE LIST

STATUS is dpkg's list of installed packages, OS_RELEASE names the distribution, LIST is CycloneDX and is written anew.
A Python that no package of the system brought is in the list by itself.
"""

import json
import sys
from pathlib import Path
from urllib.parse import quote


def packages(status):
    """Name, version, architecture, source and who maintains it: of each package that is installed, by name."""
    found = []
    for paragraph in status.split("\n\n"):
        fields = {}
        for line in paragraph.splitlines():
            name, colon, value = line.partition(":")
            if colon and not line[0].isspace():
                fields[name] = value.strip()
        if fields.get("Status", "").endswith(" installed"):
            found.append(fields)
    return sorted(found, key=lambda one: (one["Package"], one["Architecture"]))


def variables(os_release):
    pairs = (line.partition("=") for line in os_release.splitlines() if "=" in line)
    return {name: value.strip("\"'") for name, _, value in pairs}


def component(package, system):
    name, version = package["Package"], package["Version"]
    qualifiers = f"arch={package['Architecture']}&distro={system['ID']}-{system['VERSION_ID']}"
    purl = f"pkg:deb/{system['ID']}/{quote(name, safe='')}@{quote(version, safe='')}?{qualifiers}"
    source = package.get("Source", name).partition(" ")[0]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "supplier": {"name": package.get("Maintainer", "unknown")},
        "properties": [{"name": "oncelog:source-package", "value": source}],
    }


def complete(parts, status, os_release, python=None):
    """`parts` with the system's; `python` is the version of one that no package brought."""
    system = variables(os_release)
    own = [component(one, system) for one in packages(status)]
    own.append(
        {
            "type": "operating-system",
            "bom-ref": f"system:{system['ID']}",
            "name": system["ID"],
            "version": system["VERSION_ID"],
        }
    )
    if python:
        purl = f"pkg:generic/python@{python}"
        named = {"name": "python", "version": python, "purl": purl}
        own.append({"type": "application", "bom-ref": purl, **named})
    there = {one["bom-ref"] for one in own}
    kept = [one for one in parts.get("components", []) if one["bom-ref"] not in there]
    return {**parts, "components": [*kept, *own]}


if __name__ == "__main__":
    status, os_release, file = map(Path, sys.argv[1:])
    built = sys.version.split()[0] if sys.base_prefix == "/usr/local" else None
    made = complete(json.loads(file.read_text()), status.read_text(), os_release.read_text(), built)
    file.write_text(json.dumps(made, indent=1, sort_keys=True))
