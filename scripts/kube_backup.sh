#!/usr/bin/env bash
# Backup and restore of a release of the chart with its bundled Postgres (docs/backup.md).
# Usage: kube_backup.sh backup|restore FOLDER
# Variables: NAMESPACE (default), RELEASE (oncelog), KUBECTL (program).
set -euo pipefail
verb=${1:-} folder=${2:-}
if [[ ! "$verb" =~ ^(backup|restore)$ || -z "$folder" ]]; then sed -n '2,4s/^# //p' "$0" >&2; exit 2; fi
release=${RELEASE:-oncelog}
k() { "${KUBECTL:-kubectl}" --namespace "${NAMESPACE:-default}" "$@"; }

# What writes, doors first; every kind of object is asked for, so a role may be either.
roles="listener gateway marker-sender coordinator storage controller"
of_role() { k get statefulset,deployment -l "app.kubernetes.io/instance=$release,app.kubernetes.io/component=$1" -o name; }

declare -A replicas=()
note_sizes() {
  for role in $roles; do
    for one in $(of_role "$role"); do replicas[$one]=$(k get "$one" -o 'jsonpath={.spec.replicas}'); done
  done
  storage=$(of_role storage)
  [ -n "$storage" ] || { echo "release $release has no storage nodes in namespace ${NAMESPACE:-default}; set RELEASE and NAMESPACE" >&2; exit 1; }
  postgres=$(of_role postgres)
  [ -n "$postgres" ] || { echo "release $release has no Postgres of its own; use your Postgres' dump, see docs/backup.md" >&2; exit 1; }
  [ "${replicas[$storage]}" != 0 ] || { echo "$storage has no replicas; scale the release up first, so that its size is known" >&2; exit 1; }
  if [ "$(k get "$storage" -o 'jsonpath={.spec.persistentVolumeClaimRetentionPolicy.whenScaled}')" = Delete ]; then
    echo "storage.persistence.whenScaled is Delete: scaled to 0, Kubernetes would remove the volumes. Set it to Retain" >&2; exit 1
  fi
  name=${storage#*/}
  first=$(k get "$storage" -o 'jsonpath={.spec.ordinals.start}')
  volumes=()
  for ((n = first; n < first + replicas[$storage]; n++)); do volumes+=("data-$name-$n"); done
}

gone() { # every pod of a role
  local pods="app.kubernetes.io/instance=$release,app.kubernetes.io/component=$1"
  [ -z "$(k get pod -l "$pods" -o name)" ] || k wait pod -l "$pods" --for=delete --timeout=180s >&2
}

scale() { # to 0, or back
  for role in $roles; do
    for one in $(of_role "$role"); do
      k scale "$one" --replicas "$([ "$1" = 0 ] && echo 0 || echo "${replicas[$one]}")" >&2
    done
    [ "$1" != 0 ] || gone "$role"
  done
}

image_of() { k get "$1" -o 'jsonpath={.spec.template.spec.containers[0].image}'; }

with_volume() { # claim, command for sh in a pod that has it at /data
  local pod="$release-backup-$RANDOM"
  k apply -f - >&2 <<POD
apiVersion: v1
kind: Pod
metadata: {name: $pod, labels: {app.kubernetes.io/part-of: oncelog}}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 10001, runAsGroup: 10001, fsGroup: 10001, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: tar
      image: $(image_of "$storage")
      command: [sleep, "86400"]
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: $1}}]
POD
  k wait "pod/$pod" --for=condition=Ready --timeout=180s >&2
  k exec -i "$pod" -- sh -c "$2" || { k delete pod "$pod" --now >&2; return 1; }
  k delete pod "$pod" --now >&2
}

in_postgres() { k exec -i "$postgres" -- "$@"; }

go_on() { # producer ids and epochs, by a pod that Postgres lets in as a controller
  local controller pod="$release-restored-$RANDOM"
  controller=$(of_role controller)
  k apply -f - >&2 <<POD
apiVersion: v1
kind: Pod
metadata: {name: $pod, labels: $(k get "$controller" -o 'jsonpath={.spec.template.metadata.labels}')}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  enableServiceLinks: false
  securityContext: {runAsNonRoot: true, runAsUser: 10001, runAsGroup: 10001, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: restored
      image: $(image_of "$controller")
      command: [python, -m, oncelog_controller.restored]
      env:
        - {name: POSTGRES_PASSWORD, valueFrom: {secretKeyRef: $(k get "$postgres" -o 'jsonpath={.spec.template.spec.containers[0].env[?(@.name=="POSTGRES_PASSWORD")].valueFrom.secretKeyRef}')}}
        - {name: ONCELOG_CONTROLLER_DATABASE_URL, value: "postgresql+psycopg://oncelog:\$(POSTGRES_PASSWORD)@${postgres#*/}:5432/oncelog"}
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
POD
  if ! k wait "pod/$pod" --for=jsonpath='{.status.phase}'=Succeeded --timeout=120s >&2; then k logs "$pod" >&2; return 1; fi
  k logs "$pod" >&2
  k delete pod "$pod" --now >&2
}

note_sizes
if [ "$verb" = backup ]; then
  [ ! -e "$folder" ] || { echo "$folder exists; name a folder that does not" >&2; exit 1; }
  mkdir -p "$folder.partial"
  chmod 700 "$folder.partial"
  trap 'scale back' EXIT
  scale 0
  in_postgres pg_dump -U oncelog --clean --if-exists oncelog | gzip > "$folder.partial/postgres.sql.gz"
  for claim in "${volumes[@]}"; do with_volume "$claim" 'tar -C /data -czf - storage' > "$folder.partial/$claim.tar.gz"; done
  (cd "$folder.partial" && sha256sum -- *.gz > SHA256SUMS)
  mv "$folder.partial" "$folder"
else
  (cd "$folder" && sha256sum --check --quiet SHA256SUMS)
  for claim in "${volumes[@]}"; do
    [ -f "$folder/$claim.tar.gz" ] || { echo "$folder has no $claim.tar.gz: the release has more storage nodes, or another name" >&2; exit 1; }
  done
  [ "$(find "$folder" -name 'data-*.tar.gz' | wc -l)" = "${#volumes[@]}" ] || { echo "$folder is of more storage nodes than the release has" >&2; exit 1; }
  scale 0
  # From here on a failure leaves everything at 0: half of a restore must not be started.
  trap '[ $? = 0 ] || echo "the restore is not complete, and everything is left at 0 replicas: ${!replicas[*]}" >&2' EXIT
  gunzip -c "$folder/postgres.sql.gz" | in_postgres psql -U oncelog -d oncelog -q -v ON_ERROR_STOP=1 --single-transaction > /dev/null
  for claim in "${volumes[@]}"; do with_volume "$claim" 'rm -rf /data/storage && tar -C /data -xzf -' < "$folder/$claim.tar.gz"; done
  go_on
  scale back
fi
