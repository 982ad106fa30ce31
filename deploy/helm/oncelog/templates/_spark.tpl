{{/* "true" where Spark's pods log in, or nothing. */}}
{{- define "oncelog.sparkLogsIn" -}}
{{- if or .Values.spark.clientConfigSecret (include "oncelog.isSecured" .) }}true{{ end -}}
{{- end -}}

{{/* Where the release is and how to log in. No token for REST: Spark needs none, and its programs are others'. */}}
{{- define "oncelog.sparkEnv" -}}
{{ include "oncelog.addressEnv" . }}
{{- if include "oncelog.sparkLogsIn" . }}
- {name: ONCELOG_CLIENT_CONFIG, value: /etc/oncelog-client/client.properties}
{{- end }}
{{- end -}}

{{- define "oncelog.sparkClientMount" -}}
{{- if include "oncelog.sparkLogsIn" . }}{{ include "oncelog.clientMount" . }}{{ end -}}
{{- end -}}

{{- define "oncelog.sparkClientVolume" -}}
{{- with .Values.spark.clientConfigSecret -}}
- name: client
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- else -}}
{{- if include "oncelog.isSecured" . }}{{ include "oncelog.clientVolume" . }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* The files of SPARK_CONF_DIR. */}}
{{- define "oncelog.sparkConf" -}}
{{- $spark := .Values.spark -}}
{{- $name := printf "%s-spark" (include "oncelog.fullname" .) -}}
spark-defaults.conf: |
  spark.driver.memory {{ $spark.driver.memory }}
  spark.log.level WARN
  spark.ui.port 4040
  spark.ui.showConsoleProgress false
  {{- if eq $spark.mode "executors" }}
  spark.master k8s://https://kubernetes.default.svc
  spark.submit.deployMode client
  spark.driver.port 7078
  spark.driver.blockManager.port 7079
  spark.executor.instances {{ $spark.executor.instances }}
  spark.executor.cores {{ $spark.executor.cores }}
  spark.executor.memory {{ $spark.executor.memory }}
  spark.kubernetes.namespace {{ .Release.Namespace }}
  spark.kubernetes.container.image {{ include "oncelog.image" (dict "root" . "role" "spark") }}
  spark.kubernetes.container.image.pullPolicy {{ .Values.image.pullPolicy }}
  spark.kubernetes.executor.podTemplateFile /etc/spark/executor.yaml
  spark.kubernetes.executor.podTemplateContainerName executor
  spark.kubernetes.executor.request.cores {{ $spark.executor.cpuRequest }}
  spark.kubernetes.executor.disableConfigMap true
  {{- else }}
  spark.master local[2]
  spark.local.dir /tmp
  spark.driver.host 127.0.0.1
  spark.driver.bindAddress 127.0.0.1
  {{- end }}
  {{- range $key, $value := $spark.conf }}
  {{ $key }} {{ if and (kindIs "float64" $value) (eq (floor $value) $value) }}{{ int64 $value }}{{ else }}{{ $value }}{{ end }}
  {{- end }}
{{- if eq $spark.mode "executors" }}
executor.yaml: |
  apiVersion: v1
  kind: Pod
  metadata:
    labels:
      {{- include "oncelog.labels" (dict "root" . "role" "spark-executor") | nindent 6 }}
  spec:
    automountServiceAccountToken: false
    enableServiceLinks: false
    {{- with .Values.image.pullSecrets }}
    imagePullSecrets:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    securityContext:
      {{- include "oncelog.podSecurity" (dict "id" 10001) | nindent 6 }}
    {{- with $spark.executor.nodeSelector }}
    nodeSelector:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $spark.executor.tolerations }}
    tolerations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    containers:
      - name: executor
        {{- with $spark.executor.extraEnv }}
        env:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          {{- include "oncelog.containerSecurity" . | nindent 10 }}
        volumeMounts:
          - {name: tmp, mountPath: /tmp}
          {{- with include "oncelog.sparkClientMount" . }}
          {{- . | nindent 10 }}
          {{- end }}
    volumes:
      - name: tmp
        emptyDir: {sizeLimit: 16Gi}
      {{- with include "oncelog.sparkClientVolume" . }}
      {{- . | nindent 6 }}
      {{- end }}
{{- end }}
{{- end -}}
