"""Feeds targets with bytes of chance that atheris steers by the branches they reach.

    python -m tests.fuzz [--seconds 60] [TARGET ...]

Each target runs in a process of its own. What was found useful stays in .cache/fuzz/TARGET and is fed first the next
time. An input that is a finding is kept in artifacts/fuzz; feed it again with `--input FILE TARGET`.
"""

import argparse
import hashlib
import subprocess
import sys
import time
from pathlib import Path

from tests.fuzz.targets import TARGETS, target

CORPUS, FINDINGS = Path(".cache/fuzz"), Path("artifacts/fuzz")
INPUT_BYTES_MAX = 4096
ONE_INPUT_S = 10
MEMORY_MB = 1024
INSTRUMENTED = ["oncelog", "oncelog_coordinator", "oncelog_listener"]


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=60, help="of each target")
    parser.add_argument("--input", type=Path, help="feed this file and nothing else")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    wanted = options.targets or TARGETS
    unknown = sorted(set(wanted) - set(TARGETS))
    if unknown:
        parser.error(f"no target is named {unknown[0]!r}: {', '.join(TARGETS)}")
    if options.input is not None:
        for name in wanted:
            print(name, "accepted" if target(name).fed(options.input.read_bytes()) else "refused")
    elif options.alone:
        fuzz(wanted[0], options.seconds)
    else:
        sys.exit(run_each(wanted, options.seconds))


def run_each(names, seconds):
    failed = 0
    for name in names:
        began = time.monotonic()
        command = [sys.executable, "-m", "tests.fuzz", "--alone", "--seconds", str(seconds), name]
        done = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        runs = [line for line in done.stdout.splitlines() if "number_of_executed_units" in line]
        count = runs[-1].split()[-1] if runs else "?"
        verdict = f"FINDING, see {FINDINGS}" if done.returncode else "nothing found"
        print(f"{name:14} {count:>9} inputs in {time.monotonic() - began:.0f} s: {verdict}")
        if done.returncode:
            failed = 1
            print(done.stdout[-6000:])
    return failed


def fuzz(name, seconds):
    try:
        import atheris
    except ImportError:
        sys.exit("the fuzzer needs atheris: make fuzz installs it; it has wheels for Linux only")
    with atheris.instrument_imports(include=INSTRUMENTED):
        chosen = target(name)
    corpus = CORPUS / name
    corpus.mkdir(parents=True, exist_ok=True)
    FINDINGS.mkdir(parents=True, exist_ok=True)
    for seed in chosen.seeds():
        (corpus / f"seed-{hashlib.sha256(seed).hexdigest()[:16]}").write_bytes(seed)
    arguments = [
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={ONE_INPUT_S}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-artifact_prefix={FINDINGS}/{name}-",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *arguments, str(corpus)], lambda data: chosen.fed(data) and 0)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
