"""What the tests with containers stand on: an engine, a base image, Postgres, Redis, and oncelog's own images.

Each is used as it is there; else it is got: an engine and a base by apt on Debian as root, images by their registry or
from the base. What cannot be had is `Missing`, in one sentence with the way out. The answer is a few variables of the
environment, which `scripts/images.sh` and `oncelog_robustness.chaos.containers` read.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from oncelog_robustness.chaos.containers.engine import Engine, find_engine
from oncelog_robustness.chaos.containers.plan import Images

from oncelog.errors import OncelogError
from oncelog_server.cluster.plan import ROLES

HOME = Path(__file__).parents[2]
CACHE = HOME / ".cache" / "e2e"
BASE = "docker.io/library/python:3.12-slim-bookworm"
OWN_BASE = "localhost/oncelog-base:bookworm"
STANDIN = Path(__file__).parent / "standin"
TAG_VARIABLE = "ONCELOG_E2E_TAG"
OWN_TAG = "e2e"
PULL_S, BUILD_S, APT_S, TRIAL_S = 300.0, 1_800.0, 900.0, 60.0
PACKAGES = ("podman", "runc", "netavark", "iptables", "uidmap", "catatonit", "ca-certificates")
MIRROR = "http://deb.debian.org/debian"
CONTAINERS_CONF = """\
[containers]
default_ulimits = ["nofile=16384:16384", "nproc=16384:16384"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
STORAGE_CONF = """\
[storage]
driver = "overlay"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""


class Missing(Exception):
    """What is not there, and the way out."""


def say(text: str) -> None:
    print(f"e2e: {text}", file=sys.stderr, flush=True)


def prepare() -> None:
    """Raises Missing."""
    engine = working_engine()
    os.environ["ENGINE"] = engine.command
    # A build of a bare machine may reach packages by its own network alone.
    os.environ.setdefault("NETWORK", "host")
    own = Images.of_environment()
    tag = os.environ.get(TAG_VARIABLE, "")
    needs_base = BaseOnce(engine)
    os.environ["POSTGRES_IMAGE"] = third_party(engine, own.postgres, "postgres", needs_base)
    os.environ["REDIS_IMAGE"] = third_party(engine, own.redis, "redis", needs_base)
    if not tag:
        os.environ["BASE_IMAGE"] = needs_base()
        build_images()
    os.environ["TAG"] = tag or OWN_TAG
    for image in Images.of_environment().needed:
        if not engine.has_image(image):
            raise Missing(
                f"{engine.command} has no image {image}, which IMAGES and {TAG_VARIABLE} name; without "
                f"{TAG_VARIABLE} the images are built"
            )


# ------------------------------------------------------------------------------------------------------ the engine


def working_engine() -> Engine:
    try:
        engine = find_engine()
    except OncelogError as error:
        return installed_podman(str(error))
    if not engine.is_podman or runs(engine):
        return engine
    if os.environ.get("CONTAINERS_CONF") or not is_root():
        raise Missing(
            f"podman answers and cannot run a container ({why(engine)}); say what it lacks in its containers.conf, "
            "or set ENGINE=docker"
        )
    return private_podman()


def installed_podman(trouble: str) -> Engine:
    """By apt."""
    if not is_root() or shutil.which("apt-get") is None:
        raise Missing(f"{trouble} (as root on Debian or Ubuntu these tests install it)")
    if os.environ.get("ENGINE"):
        raise Missing(trouble)
    if shutil.which("podman") is None:
        say("no container engine answers: installing podman and runc with apt-get")
        apt_install(PACKAGES)
    return private_podman()


def apt_install(packages: Sequence[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (("update",), ("install", "-y", "--no-install-recommends", *packages)):
        done = run(["apt-get", "-qq", *arguments], APT_S, environment)
        if done.returncode:
            raise Missing(
                f"apt-get {arguments[0]} failed: {last_line(done.stderr)}; install {' '.join(packages)} by hand"
            )


def private_podman() -> Engine:
    """Podman with settings and a store of its own, for a machine where nobody has set it up: runc works with either
    kind of cgroups, and nothing is needed of systemd."""
    if shutil.which("runc") is None:
        apt_install(("runc",))
    folder = CACHE / "podman"
    folder.mkdir(parents=True, exist_ok=True)
    containers, storage = folder / "containers.conf", folder / "storage.conf"
    containers.write_text(CONTAINERS_CONF)
    storage.write_text(STORAGE_CONF.format(folder=folder))
    os.environ["CONTAINERS_CONF"] = str(containers)
    os.environ["CONTAINERS_STORAGE_CONF"] = str(storage)
    policy = Path("/etc/containers/policy.json")
    if not policy.exists():
        policy.parent.mkdir(parents=True, exist_ok=True)
        policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}\n')
    engine = Engine("podman")
    if not runs(engine):
        raise Missing(
            f"podman was set up in {folder} and cannot run a container: {why(engine)}; it needs root, cgroups, overlay "
            "file systems and network namespaces, so inside a container that one has to be privileged"
        )
    say(f"podman has its settings and its store in {folder}")
    return engine


def trial(engine: Engine) -> Callable[[], subprocess.CompletedProcess[str]]:
    """A container without an image: the programs of this machine in an empty folder."""

    def start() -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory(prefix="oncelog-e2e-") as folder:
            mounts = []
            for name in ("usr", "bin", "lib", "lib64"):
                place = Path("/", name)
                if place.is_symlink():
                    Path(folder, name).symlink_to(os.readlink(place))
                elif place.is_dir():
                    mounts += ["--volume", f"{place}:{place}:ro"]
            command = [engine.command, "run", "--rm", "--network", "none", *mounts, "--rootfs"]
            return run([*command, folder, "/usr/bin/true"], TRIAL_S)

    return start


def runs(engine: Engine) -> bool:
    return trial(engine)().returncode == 0


def why(engine: Engine) -> str:
    return last_line(trial(engine)().stderr)


# ------------------------------------------------------------------------------------------------------ images


class BaseOnce:
    """The base image's name; it is looked for when it is first needed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._found = os.environ.get("BASE_IMAGE", "")

    def __call__(self) -> str:
        if not self._found:
            self._found = base_image(self._engine)
        return self._found


def base_image(engine: Engine) -> str:
    for name in (BASE, "localhost/python:3.12-slim-bookworm", OWN_BASE):
        if engine.has_image(name):
            return name
    if pulled(engine, BASE):
        return BASE
    if not is_root() or shutil.which("apt-get") is None:
        raise Missing(
            f"{engine.command} cannot pull {BASE}; load it, or name an image like Debian with Python 3.11 as "
            "BASE_IMAGE (as root on Debian these tests make one with debootstrap)"
        )
    if shutil.which("debootstrap") is None:
        apt_install(("debootstrap",))
    say(f"{BASE} cannot be pulled: making a base with debootstrap, some two minutes")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="base-") as folder:
        root, archive = Path(folder, "root"), Path(folder, "root.tar")
        included = "--include=python3,python3-venv,ca-certificates"
        variant = ["debootstrap", "--variant=minbase", included, "bookworm"]
        done = run([*variant, str(root), os.environ.get("DEBIAN_MIRROR", MIRROR)], BUILD_S)
        if done.returncode:
            raise Missing(
                f"debootstrap failed: {last_line(done.stdout + done.stderr)}; name a mirror that answers as "
                "DEBIAN_MIRROR, or an image as BASE_IMAGE"
            )
        slim(root)
        done = run(["tar", "-C", str(root), "--numeric-owner", "-cf", str(archive), "."], BUILD_S)
        if done.returncode:
            raise Missing(f"tar failed: {last_line(done.stderr)}; is there room in {CACHE}?")
        engine.do("import", str(archive), OWN_BASE, timeout_s=BUILD_S)
    return OWN_BASE


def slim(root: Path) -> None:
    """Without what slim images of Debian leave out too: 100 MB. Licences stay."""
    for name in ("usr/share/locale", "usr/share/man", "usr/share/info"):
        shutil.rmtree(root / name, ignore_errors=True)
    for name in ("var/cache/apt/archives", "var/lib/apt/lists"):
        shutil.rmtree(root / name, ignore_errors=True)
        (root / name / "partial").mkdir(parents=True)
    for path in (root / "usr/share/doc").rglob("*"):
        if path.name != "copyright" and (path.is_symlink() or path.is_file()):
            path.unlink()


def pulled(engine: Engine, name: str) -> bool:
    say(f"pulling {name}")
    try:
        return engine.run_command("pull", "--quiet", name, timeout_s=PULL_S).code == 0
    except OncelogError:
        return False


def third_party(engine: Engine, name: str, target: str, base: Callable[[], str]) -> str:
    """`name`, or a stand-in made of Debian's packages where there is no registry."""
    standin = f"localhost/oncelog-standin-{target}:e2e"
    for one in (name, standin):
        if engine.has_image(one):
            return one
    if pulled(engine, name):
        return name
    say(f"{name} cannot be pulled: building a stand-in from Debian's packages")
    arguments = ["--build-arg", f"BASE_IMAGE={base()}", "--target", target, "-t", standin]
    network = ["--network", os.environ["NETWORK"]] if os.environ["NETWORK"] else []
    try:
        engine.do("build", "--quiet", *network, *arguments, str(STANDIN), timeout_s=BUILD_S)
    except OncelogError as error:
        raise Missing(
            f"no image of {target}: {name} cannot be pulled, and no stand-in can be built ({error}); name one as "
            f"{target.upper()}_IMAGE"
        ) from error
    return standin


def build_images() -> None:
    roles = [one.role for one in ROLES]
    say(f"building the images of {', '.join(roles)} and tools; {TAG_VARIABLE}=… names others")
    environment = {**os.environ, "TARGETS": " ".join([*roles, "tools"]), "VERSION": OWN_TAG}
    done = run(["bash", str(HOME / "scripts/images.sh")], BUILD_S, environment)
    if done.returncode:
        raise Missing(
            f"scripts/images.sh failed: {last_line(done.stderr)}; docs/containers.md says what a build needs behind a "
            "proxy"
        )


# ------------------------------------------------------------------------------------------------------ commands


def is_root() -> bool:
    return platform.system() == "Linux" and os.geteuid() == 0


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1].strip()


def run(
    command: list[str], timeout_s: float, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Missing(
            f"{' '.join(command[:2])} did not end within {timeout_s:.0f} s; is the network slow?"
        ) from error
    except OSError as error:
        raise Missing(f"cannot run {command[0]}: {error.strerror}; install it") from error


if __name__ == "__main__":
    try:
        prepare()
    except (Missing, OncelogError) as error:
        sys.exit(f"e2e: {error}")
