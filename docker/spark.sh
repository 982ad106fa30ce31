#!/bin/sh
# What a pod of Spark runs. Spark's Kubernetes scheduler starts executors with the argument `executor` and says the rest
# in the environment; `driver …` runs an application here, in client mode; anything else runs as it is.
set -eu
SPARK_HOME=${SPARK_HOME:-$(python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')}
export SPARK_HOME

executor() {
  set --
  number=0
  while eval "option=\${SPARK_JAVA_OPT_$number-}" && [ -n "$option" ]; do
    set -- "$@" "$option"
    number=$((number + 1))
  done
  exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
}

case "${1:-}" in
  executor) executor ;;
  driver)
    shift
    exec spark-submit --deploy-mode client \
      ${SPARK_DRIVER_BIND_ADDRESS:+--conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS"} "$@"
    ;;
  "") exec python ;;
  *) exec "$@" ;;
esac
