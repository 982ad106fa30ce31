#!/usr/bin/env bash
# Known vulnerabilities of every package that requirements/ pins, on any system. Usage: audit.sh ENVIRONMENT [options of pip-audit]
# A package that could not be looked up is a failure too (--strict): "none found" must mean that all were asked.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$1 && shift
rounds=$(mktemp -d)
trap 'rm -rf "$rounds"' EXIT
# pip-audit takes one version of a name at a time; a second version goes into a second round.
awk -v to="$rounds" '/^[A-Za-z0-9]/ && !seen[$1]++ { split($1, part, "=="); print $1 > (to "/" ++versions[part[1]] ".txt") }' \
  requirements/*.lock
status=0
for round in "$rounds"/*.txt; do
  "$tools/bin/pip-audit" --strict --progress-spinner off --disable-pip --no-deps --requirement "$round" "$@" || status=1
done
exit $status
