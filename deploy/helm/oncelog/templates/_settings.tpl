{{/* What a process is told: the file of settings, its place in the cluster, its databases. */}}

{{/* Tables of settings as TOML. Helm reads every number as a float. */}}
{{- define "oncelog.toml" -}}
{{- range $table, $settings := . }}
{{- if $settings }}
[{{ $table }}]
{{- range $name, $value := $settings }}
{{- if kindIs "string" $value }}
{{ $name }} = {{ $value | toJson }}
{{- else if kindIs "bool" $value }}
{{ $name }} = {{ $value }}
{{- else }}
{{ $name }} = {{ int64 $value }}
{{- end }}
{{- end }}
{{ end }}
{{- end }}
{{- end -}}

{{/* Ordinals of a StatefulSet begin here, so that the number in a pod's name is its node id. */}}
{{- define "oncelog.firstId" -}}
{{- get (dict "controller" "1" "storage" "101" "coordinator" "201" "listener" "301") . -}}
{{- end -}}

{{- define "oncelog.controllers" -}}
{{- $root := . -}}
{{- $name := printf "%s-controller" (include "oncelog.fullname" .) -}}
{{- $names := list -}}
{{- range $index := until (int .Values.controller.replicas) -}}
{{- $names = append $names (printf "%s-%d.%s:9090" $name (add 1 $index) (include "oncelog.host" (dict "root" $root "service" "controller"))) -}}
{{- end -}}
{{- join "," $names -}}
{{- end -}}

{{/* Variables of every process of a role. */}}
{{- define "oncelog.nodeEnv" -}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: MACHINE
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: ONCELOG_CONFIG
  value: /etc/oncelog/oncelog.toml
- name: ONCELOG_NODE_NODE_ID
{{- if .isStateless }}
  value: "0"
{{- else }}
  valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}
{{- end }}
- name: ONCELOG_NODE_HOST
  value: $(POD_IP)
- name: ONCELOG_NODE_PORT
  value: "9090"
- name: ONCELOG_NODE_CONTROLLERS
  value: {{ include "oncelog.controllers" .root | quote }}
- name: ONCELOG_NODE_RACK
  value: $(MACHINE)
- name: ONCELOG_PROCESS_METRICS_HOST
  value: $(POD_IP)
- name: ONCELOG_PROCESS_METRICS_PORT
  value: "9091"
{{- if include "oncelog.isSecured" .root }}
{{ include "oncelog.tlsEnv" .root }}
{{- end }}
{{- with include "oncelog.spansTo" .root }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
- name: OTEL_TRACES_SAMPLER
  value: parentbased_traceidratio
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ $.root.Values.tracing.ratio | quote }}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: {{ printf "k8s.namespace.name=%s,k8s.pod.name=$(POD_NAME),k8s.node.name=$(MACHINE)" $.root.Release.Namespace | quote }}
{{- end }}
{{- end -}}

{{/* ONCELOG_CONTROLLER_DATABASE_URL, and what it is made of. */}}
{{- define "oncelog.databaseEnv" -}}
{{- $postgres := .Values.postgres -}}
{{- if $postgres.bundled -}}
- name: POSTGRES_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ include "oncelog.postgresSecret" . | quote }}, key: password}}
- name: ONCELOG_CONTROLLER_DATABASE_URL
  value: postgresql+psycopg://oncelog:$(POSTGRES_PASSWORD)@{{ include "oncelog.host" (dict "root" . "service" "postgres") }}:5432/oncelog{{ if include "oncelog.isSecured" . }}?sslmode=verify-full&sslrootcert=/etc/oncelog-tls/ca.crt{{ end }}
{{- else if $postgres.external.existingSecret -}}
- name: ONCELOG_CONTROLLER_DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ $postgres.external.existingSecret | quote }}, key: {{ $postgres.external.existingSecretKey | quote }}}}
{{- else -}}
- name: ONCELOG_CONTROLLER_DATABASE_URL
  value: {{ required "postgres.bundled=false: give postgres.external.url, or postgres.external.existingSecret" $postgres.external.url | quote }}
{{- end -}}
{{- end -}}

{{/* A role's variable with the address of the event feed; argument: root and the name of the variable. */}}
{{- define "oncelog.redisEnv" -}}
{{- $redis := .root.Values.redis -}}
{{- if not $redis.enabled -}}
{{- else if $redis.bundled -}}
- name: REDIS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ include "oncelog.redisSecret" .root | quote }}, key: password}}
- name: {{ .variable }}
  {{- $host := include "oncelog.host" (dict "root" .root "service" "redis") }}
  {{- if include "oncelog.isSecured" .root }}
  value: rediss://:$(REDIS_PASSWORD)@{{ $host }}:6379/0?ssl_ca_certs=/etc/oncelog-tls/ca.crt
  {{- else }}
  value: redis://:$(REDIS_PASSWORD)@{{ $host }}:6379/0
  {{- end }}
{{- else if $redis.external.existingSecret -}}
- name: {{ .variable }}
  valueFrom: {secretKeyRef: {name: {{ $redis.external.existingSecret | quote }}, key: {{ $redis.external.existingSecretKey | quote }}}}
{{- else -}}
- name: {{ .variable }}
  value: {{ required "redis.bundled=false: give redis.external.url, or redis.external.existingSecret, or redis.enabled=false" $redis.external.url | quote }}
{{- end -}}
{{- end -}}

{{- define "oncelog.postgresSecret" -}}
{{- default (printf "%s-postgres" (include "oncelog.fullname" .)) .Values.postgres.existingSecret -}}
{{- end -}}

{{- define "oncelog.redisSecret" -}}
{{- default (printf "%s-redis" (include "oncelog.fullname" .)) .Values.redis.existingSecret -}}
{{- end -}}
