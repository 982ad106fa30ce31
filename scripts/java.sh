#!/usr/bin/env bash
# Finds Java 17, or installs it where this is root on Debian or Ubuntu, or says what to do.
#   java.sh        what Spark needs: a JRE. Without one this fails.
#   java.sh jdk    what `make conformance` needs: a JDK and Maven. Without them the Java tests are skipped.
set -euo pipefail
packages=openjdk-17-jre-headless user=Spark
if [ "${1:-}" = jdk ]; then
  packages="openjdk-17-jdk-headless maven" user="the tests with Kafka's Java clients"
fi

is_there() {
  java -version 2>&1 | grep -Eq 'version "(1[7-9]|2[0-9])' || return 1
  [ "${1:-}" != jdk ] || { command -v javac && command -v mvn; } >/dev/null
}

if is_there "$@"; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing $packages for $user"
  # shellcheck disable=SC2086
  apt-get update -qq && apt-get install -y -qq $packages >/dev/null
  exit 0
fi
echo "Java 17 or newer is missing, or a part of it, for $user." >&2
echo "  Debian, Ubuntu:  sudo apt install $packages" >&2
echo "  macOS:           brew install openjdk@17 maven" >&2
[ "${1:-}" = jdk ] || exit 1
