#!/usr/bin/env bash
# spark_manifests.sh FOLDER: the chart's Spark query as plain manifests, beside a release `oncelog` in the namespace `default`.
set -euo pipefail
cd "$(dirname "$0")/.."
helm=.cache/kubernetes-tools/helm4
mkdir -p "$1"
for mode in local executors; do
  {
    echo "# A Spark query beside a release \`oncelog\` in the namespace \`default\` (docs/kubernetes.md, Spark): kubectl apply -f."
    echo "# Made from the chart by \`make spark-manifests\`."
    $helm template oncelog deploy/helm/oncelog --namespace default --set spark.enabled=true,spark.mode=$mode,spark.payments.rows=100000 \
      --show-only templates/spark.yaml | sed '/^# Source:/d; s/managed-by: "Helm"/managed-by: "kubectl"/'
  } >"$1/$mode.yaml"
done
