#!/usr/bin/env bash
# What `pip install oncelog` brings, as CycloneDX. Usage: sbom.sh ENVIRONMENT-OF-TOOLS UV FILE
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$1 uv=$2 file=$3
installed=$(mktemp -d)
trap 'rm -rf "$installed"' EXIT
"$uv" venv -q --python "$tools/bin/python" "$installed/venv"
"$uv" pip install -q --python "$installed/venv/bin/python" --require-hashes -r requirements/base.lock
"$uv" pip install -q --python "$installed/venv/bin/python" --no-deps .
mkdir -p "$(dirname "$file")"
"$tools/bin/python" -m cyclonedx_py environment --pyproject pyproject.toml --mc-type application \
  --output-reproducible --of JSON -o "$file" "$installed/venv/bin/python"
"$tools/bin/python" -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["components"]), "packages:", sys.argv[1])' "$file"
