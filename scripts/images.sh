#!/usr/bin/env bash
# Builds the images of docker/Dockerfile and prints their sizes; one of more than 250 MB, Spark's apart, is an error.
# Everything is said in the environment:
#   TARGETS     which; default: all                      ENGINE    docker or podman; default: the first that answers
#   BASE_IMAGE  instead of python:3.12-slim-bookworm     SAVE      a folder for an archive of each, to load elsewhere
#   VERSION     of the tag; default: pyproject.toml's    NETWORK   of the build, such as host
#   CA          PEM file of the authorities behind which packages are fetched; default: PIP_CERT, SSL_CERT_FILE
#   PIP_CONF    pip's configuration for the build        HTTP_PROXY, HTTPS_PROXY, NO_PROXY   as always
set -euo pipefail
cd "$(dirname "$0")/.."
all="controller coordinator storage marker-sender listener gateway tools spark"
limit_mb=250

engine() {
  for one in ${ENGINE:-docker podman}; do
    if command -v "$one" >/dev/null && "$one" info >/dev/null 2>&1; then echo "$one"; return; fi
  done
  cat >&2 <<TEXT
no container engine answers${ENGINE:+ to the name $ENGINE}. One of these is needed:
  podman   Debian, Ubuntu: sudo apt install podman     Fedora: sudo dnf install podman     macOS: brew install podman
  docker   https://docs.docker.com/engine/install/, and a daemon that runs: docker info
TEXT
  return 1
}

engine=$(engine)
targets=${TARGETS:-$all}
for target in $targets; do
  case " $all " in
    *" $target "*) ;;
    *) echo "TARGETS names $target, which is no image; there are: $all" >&2; exit 1 ;;
  esac
done
version=${VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml | head -1)}
options=(--build-arg "VERSION=$version" --build-arg "REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)")
[ -z "${BASE_IMAGE:-}" ] || options+=(--build-arg "BASE_IMAGE=$BASE_IMAGE")
[ -z "${NETWORK:-}" ] || options+=(--network "$NETWORK")
for name in HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy; do
  [ -z "${!name:-}" ] || options+=(--build-arg "$name=${!name}")
done
ca=${CA:-${PIP_CERT:-${SSL_CERT_FILE:-}}}
[ -z "$ca" ] || options+=(--secret "id=ca,src=$ca")
[ -z "${PIP_CONF:-}" ] || options+=(--secret "id=pipconf,src=$PIP_CONF")
if [ "$engine" = podman ]; then
  options+=(--layers --ignorefile docker/Dockerfile.dockerignore)
else
  export DOCKER_BUILDKIT=1
fi

mkdir -p artifacts/images ${SAVE:+"$SAVE"}
for target in $targets; do
  image=oncelog/$target:$version
  echo "building $image with $engine" >&2
  "$engine" build --quiet "${options[@]}" -f docker/Dockerfile --target "$target" -t "$image" . >/dev/null
  container=$("$engine" create "$image")
  "$engine" cp "$container:/opt/oncelog/sbom.cdx.json" "artifacts/images/$target.cdx.json" >/dev/null
  "$engine" rm "$container" >/dev/null
  if [ -n "${SAVE:-}" ]; then
    rm -f "$SAVE/oncelog-$target.tar"
    # Podman would write localhost/ before the name. A cluster that loads the archive looks for the one that the chart says.
    [ "$engine" = docker ] || "$engine" tag "$image" "docker.io/$image"
    "$engine" save -o "$SAVE/oncelog-$target.tar" "$([ "$engine" = docker ] || echo docker.io/)$image"
  fi
done

printf '%-32s %8s\n' image MB
too_big=""
for target in $targets; do
  image=oncelog/$target:$version
  bytes=$("$engine" image inspect -f '{{.Size}}' "$image")
  over=""
  if [ "$target" != spark ] && [ "$bytes" -gt $((limit_mb * 1000000)) ]; then over="  over $limit_mb" too_big="$too_big $target"; fi
  printf '%-32s %8.1f%s\n' "$image" "$(awk "BEGIN {print $bytes / 1000000}")" "$over"
done
if [ -n "$too_big" ]; then
  echo "over $limit_mb MB:$too_big. \"$engine history oncelog/NAME:$version\" says which layer grew" >&2
  exit 1
fi
echo "what each one carries: artifacts/images/*.cdx.json, and /opt/oncelog/sbom.cdx.json in the image"
