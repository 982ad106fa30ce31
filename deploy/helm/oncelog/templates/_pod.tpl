{{/*
The pod of a role. Arguments: root, role (as in image names), values (of the role), env (text), and perhaps ports,
volumeMounts, volumes, stopSeconds (what a stop takes after the drain), sleepSeconds (served on after it has left the
Services), isStateless.
*/}}
{{- define "oncelog.podTemplate" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $selector := include "oncelog.selector" . -}}
metadata:
  labels:
    {{- include "oncelog.labels" . | nindent 4 }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/settings: {{ include "oncelog.toml" (pick $root.Values.config "process" "node" (replace "-" "_" .role)) | sha256sum | quote }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "oncelog.serviceAccountName" $root }}
  automountServiceAccountToken: false
  # Kubernetes would set ONCELOG_LISTENER_PORT=tcp://… for a Service of that name, and oncelog reads ONCELOG_*.
  enableServiceLinks: false
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ include "oncelog.graceSeconds" . }}
  {{- if $root.Values.chaos.enabled }}
  # Who gives faults can end and freeze the processes of a pod from within: the first of them is Kubernetes' own.
  shareProcessNamespace: true
  {{- end }}
  securityContext:
    {{- include "oncelog.podSecurity" (dict "id" 10001) | nindent 4 }}
  containers:
    - name: {{ .role }}
      image: {{ include "oncelog.image" . | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      env:
        {{- include "oncelog.nodeEnv" . | nindent 8 }}
        {{- if include "oncelog.metricsSecret" $root }}
        - {name: ONCELOG_PROCESS_METRICS_TOKEN_FILE, value: /etc/oncelog-metrics/token}
        {{- end }}
        {{- with .env }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with $values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: rpc, containerPort: 9090}
        - {name: metrics, containerPort: 9091}
        {{- with .ports }}
        {{- . | nindent 8 }}
        {{- end }}
      # A start may wait for the database, or read a log that a crash left; neither is cured by another start.
      {{- include "oncelog.probes" $root | nindent 6 }}
      {{- with .sleepSeconds }}
      lifecycle:
        # It leaves the Services meanwhile, so no new client comes to a process that stops.
        preStop:
          sleep: {seconds: {{ . }}}
      {{- end }}
      resources:
        {{- toYaml $values.resources | nindent 8 }}
      securityContext:
        {{- include "oncelog.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: settings, mountPath: /etc/oncelog, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if include "oncelog.metricsSecret" $root }}
        - {name: metrics-token, mountPath: /etc/oncelog-metrics, readOnly: true}
        {{- end }}
        {{- if include "oncelog.isSecured" $root }}
        {{- include "oncelog.tlsMount" . | nindent 8 }}
        {{- end }}
        {{- with .volumeMounts }}
        {{- . | nindent 8 }}
        {{- end }}
  volumes:
    - name: settings
      configMap: {name: {{ include "oncelog.fullname" $root }}-settings}
    - name: tmp
      emptyDir: {sizeLimit: 64Mi}
    {{- with include "oncelog.metricsSecret" $root }}
    - name: metrics-token
      secret: {secretName: {{ . | quote }}, defaultMode: 0440, items: [{key: token, path: token}]}
    {{- end }}
    {{- if include "oncelog.isSecured" $root }}
    {{- include "oncelog.tlsVolume" (dict "root" $root "name" .role) | nindent 4 }}
    {{- end }}
    {{- with .volumes }}
    {{- . | nindent 4 }}
    {{- end }}
  {{- include "oncelog.placement" . | nindent 2 }}
{{- end -}}

{{/* What the sleep, the drain and the stop take, and a little. */}}
{{- define "oncelog.graceSeconds" -}}
{{- $drain := ceil (divf (float64 .root.Values.config.process.drain_timeout_ms) 1000.0) | int -}}
{{- add (default 0 .sleepSeconds) $drain (default 5 .stopSeconds) 5 -}}
{{- end -}}

{{- define "oncelog.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .id }}
runAsGroup: {{ .id }}
fsGroup: {{ .id }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "oncelog.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Pods of one role on different machines. */}}
{{- define "oncelog.placement" -}}
{{- $values := .values -}}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $values.affinity }}
affinity:
  {{- toYaml $values.affinity | nindent 2 }}
{{- else }}
affinity:
  podAntiAffinity:
    {{- if eq (default "soft" $values.antiAffinity) "hard" }}
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "oncelog.selector" . | nindent 12 }}
    {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "oncelog.selector" . | nindent 14 }}
    {{- end }}
{{- end }}
topologySpreadConstraints:
{{- if $values.topologySpreadConstraints }}
  {{- toYaml $values.topologySpreadConstraints | nindent 2 }}
{{- else }}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "oncelog.selector" . | nindent 8 }}
{{- end }}
{{- end -}}

{{/* The Service through which the pods of a StatefulSet have names, also before they are ready. */}}
{{- define "oncelog.headlessService" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "oncelog.fullname" .root }}-{{ .role }}{{ default "" .suffix }}
  labels:
    {{- include "oncelog.labels" . | nindent 4 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "oncelog.selector" . | nindent 4 }}
  ports:
    - {name: rpc, port: 9090, targetPort: rpc}
{{- end -}}

{{- define "oncelog.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "oncelog.fullname" .root }}-{{ .role }}
  labels:
    {{- include "oncelog.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "oncelog.selector" . | nindent 6 }}
{{- end -}}
