#!/usr/bin/env bash
# A cluster of kind with oncelog in it. Usage: kind.sh up | down
# Variables: KIND, KUBECTL, HELM (programs), ENGINE (docker or podman), HELM_ARGS (more for helm).
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${KIND:-kind} kubectl=${KUBECTL:-kubectl} helm=${HELM:-helm}
version=$(sed -n 's/^appVersion: "\(.*\)"/\1/p' deploy/helm/oncelog/Chart.yaml)
roles="controller coordinator storage marker-sender listener gateway tools"

need() { # program, how to get it
  command -v "$1" >/dev/null || { echo "$1 is not here. $2" >&2; missing=1; }
}

engine() {
  if [ -n "${ENGINE:-}" ]; then echo "$ENGINE"; return; fi
  for one in docker podman; do
    if command -v "$one" >/dev/null && "$one" info >/dev/null 2>&1; then echo "$one"; return; fi
  done
  echo "neither docker nor podman runs here. Install one: https://docs.docker.com/engine/install or https://podman.io/docs/installation" >&2
  exit 1
}

missing=0
need "$kind" "Install it: go install sigs.k8s.io/kind@latest, or https://kind.sigs.k8s.io/docs/user/quick-start"
if [ "${1:-}" = up ]; then
  need "$kubectl" "Install it: https://kubernetes.io/docs/tasks/tools"
  need "$helm" "Install it: https://helm.sh/docs/intro/install"
fi
[ "$missing" = 0 ] || exit 1

case "${1:-}" in
  up)
    engine=$(engine)
    [ "$engine" = podman ] && export KIND_EXPERIMENTAL_PROVIDER=podman
    if ! "$kind" get clusters 2>/dev/null | grep -qx oncelog; then
      "$kind" create cluster --config deploy/kind.yaml --wait 120s
    fi
    ENGINE="$engine" bash scripts/images.sh
    archive=$(mktemp -d)/images.tar
    trap 'rm -rf "$(dirname "$archive")"' EXIT
    names=() many=()
    for role in $roles; do
      if [ "$engine" = podman ]; then
        # Podman calls an image without a registry localhost/…, the cluster docker.io/…: give it the latter.
        podman tag "localhost/oncelog/$role:$version" "docker.io/oncelog/$role:$version"
        names+=("docker.io/oncelog/$role:$version") many=(--multi-image-archive)
      else
        names+=("oncelog/$role:$version")
      fi
    done
    "$engine" save "${many[@]}" -o "$archive" "${names[@]}"
    "$kind" load image-archive "$archive" --name oncelog
    "$helm" upgrade --install oncelog deploy/helm/oncelog -f deploy/helm/oncelog/values-kind.yaml \
      --kube-context kind-oncelog --wait --timeout 5m ${HELM_ARGS:-}
    "$helm" test oncelog --kube-context kind-oncelog --logs
    echo
    echo "Kafka clients: localhost:30094. REST: $kubectl --context kind-oncelog port-forward svc/oncelog-gateway 8080"
    ;;
  down)
    "$kind" delete cluster --name oncelog
    ;;
  *)
    echo "usage: scripts/kind.sh up | down" >&2
    exit 2
    ;;
esac
