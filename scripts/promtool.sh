#!/usr/bin/env bash
# Puts promtool into .cache/kubernetes-tools: from the PATH, from Debian's or Ubuntu's package, or built by Go.
# Prints nothing when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
into=.cache/kubernetes-tools
version=v0.307.3 # of the Go module: Prometheus 3.7.3

[ ! -x "$into/promtool" ] || exit 0
mkdir -p "$into"
found=$(command -v promtool || true)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# The package is only unpacked: no service is installed, and nobody has to be root.
of_package() {
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  (cd "$tmp" && { apt-get download -qq prometheus || { [ "$(id -u)" = 0 ] && apt-get update -qq && apt-get download -qq prometheus; }; }) >&2 || return 1
  dpkg-deb -x "$tmp"/prometheus_*.deb "$tmp/package" && [ -x "$tmp/package/usr/bin/promtool" ]
}

if [ -z "$found" ] && of_package 2>/dev/null; then
  found=$tmp/package/usr/bin/promtool
elif [ -z "$found" ] && command -v go >/dev/null; then
  echo "building promtool"
  GOBIN=$tmp go install "github.com/prometheus/prometheus/cmd/promtool@$version" && found=$tmp/promtool
fi
if [ -z "$found" ]; then
  echo "promtool is missing: install Prometheus (Debian, Ubuntu: apt install prometheus) or Go" >&2
  exit 1
fi
cp "$found" "$into/promtool.$$.partial" && mv "$into/promtool.$$.partial" "$into/promtool" # several may run at once
