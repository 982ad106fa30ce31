#!/usr/bin/env bash
# Writes docker/.env from docker/env.example with passwords of chance. A file that is there stays as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
file=docker/.env
if [ -e "$file" ]; then
  echo "$file is there and stays as it is"
  exit
fi
password() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }
umask 077
sed -e "s/^POSTGRES_PASSWORD=.*/POSTGRES_PASSWORD=$(password)/" -e "s/^REDIS_PASSWORD=.*/REDIS_PASSWORD=$(password)/" \
  docker/env.example >"$file.partial"
mv "$file.partial" "$file"
echo "wrote $file; only you can read it"
