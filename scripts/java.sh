#!/usr/bin/env bash
# Spark needs Java 17. Finds it, or installs it where this is root on Debian or Ubuntu, or says what to do.
set -euo pipefail
if java -version 2>&1 | grep -Eq 'version "(1[7-9]|2[0-9])'; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing openjdk-17-jre-headless for Spark"
  apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless >/dev/null
  exit 0
fi
echo "Spark needs Java 17 or newer and there is none on the PATH." >&2
echo "  Debian, Ubuntu:  sudo apt install openjdk-17-jre-headless" >&2
echo "  macOS:           brew install openjdk@17" >&2
exit 1
