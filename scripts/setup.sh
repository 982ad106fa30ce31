#!/usr/bin/env bash
# Creates the virtual environment of this checkout from a lock file. Usage: setup.sh PYTHON VENV LOCK
set -euo pipefail
python=$1 venv=$2 lock=$3

if [ -z "$python" ] || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && [ -z "$python" ]; then
    apt-get update -qq && apt-get install -y -qq python3 python3-venv
    python=$(command -v python3)
  else
    echo "oncelog needs Python 3.11 or newer; found: ${python:-none}. Install it, or name it: make PYTHON=/path/to/python3.11" >&2
    exit 1
  fi
fi
if [ ! -x "$venv/bin/python" ]; then
  if ! "$python" -m venv "$venv" 2>/dev/null; then
    rm -rf "$venv"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      apt-get update -qq && apt-get install -y -qq python3-venv
      "$python" -m venv "$venv"
    else
      echo "$python cannot create virtual environments. On Debian or Ubuntu: sudo apt install python3-venv" >&2
      exit 1
    fi
  fi
fi
echo "installing requirements/$lock.lock into $venv (PySpark alone is 450 MB; some minutes the first time)"
"$venv/bin/python" -m pip install -q --disable-pip-version-check uv
"$venv/bin/uv" pip install -q --compile-bytecode --python "$venv/bin/python" --require-hashes -r "requirements/$lock.lock"
"$venv/bin/uv" pip install -q --python "$venv/bin/python" --no-deps -e .
"$venv/bin/python" -m compileall -q src services oncelog_robustness    # start-up is a promise: never compile at start
