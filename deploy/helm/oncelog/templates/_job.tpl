{{/*
A hook Job. Arguments: root, name, hook (for example pre-upgrade), weight, container (text of its own fields: args, env),
image (default: tools), identity (whose certificate a secured release gives it).
The jobs of one release may run again at any time: each does nothing where nothing is to be done.
*/}}
{{- define "oncelog.hookJob" -}}
{{- $root := .root -}}
{{- $role := dict "root" $root "role" "jobs" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "oncelog.fullname" $root }}-{{ .name }}
  labels:
    {{- include "oncelog.labels" $role | nindent 4 }}
  annotations:
    helm.sh/hook: {{ .hook }}
    helm.sh/hook-weight: {{ .weight | quote }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: 3
  activeDeadlineSeconds: {{ add $root.Values.jobs.timeoutSeconds 120 }}
  template:
    metadata:
      labels:
        {{- include "oncelog.labels" $role | nindent 8 }}
    spec:
      restartPolicy: Never
      {{- include "oncelog.toolsPod" $root | nindent 6 }}
      containers:
        - name: {{ .name }}
          {{- include "oncelog.jobContainer" (dict "root" $root "image" (.image | default "tools")) | nindent 10 }}
            {{- if and .identity (include "oncelog.isSecured" $root) }}
            {{- include "oncelog.tlsMount" . | nindent 12 }}
            {{- end }}
          {{- .container | nindent 10 }}
          resources:
            {{- toYaml $root.Values.jobs.resources | nindent 12 }}
      volumes:
        - name: tmp
          emptyDir: {sizeLimit: 64Mi}
        {{- if and .identity (include "oncelog.isSecured" $root) }}
        {{- include "oncelog.tlsVolume" (dict "root" $root "name" .identity) | nindent 8 }}
        {{- end }}
{{- end -}}

{{- define "oncelog.toolsPod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "oncelog.podSecurity" (dict "id" 10001) | nindent 2 }}
{{- end -}}

{{- define "oncelog.toolsContainer" -}}
{{- include "oncelog.jobContainer" (dict "root" . "image" "tools") -}}
{{- end -}}

{{/* Arguments: root, image. */}}
{{- define "oncelog.jobContainer" -}}
image: {{ include "oncelog.image" (dict "root" .root "role" .image) | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  {{- include "oncelog.containerSecurity" .root | nindent 2 }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
{{- end -}}

{{/* Where the release is. */}}
{{- define "oncelog.addressEnv" -}}
- name: ONCELOG_GATEWAY
  value: http://{{ include "oncelog.host" (dict "root" . "service" "gateway") }}:{{ .Values.gateway.service.port }}
- name: ONCELOG_BOOTSTRAP
  value: {{ include "oncelog.host" (dict "root" . "service" "listener") }}:{{ .Values.listener.service.port }}
{{- end -}}

{{/* Variables of the `oncelog` command. */}}
{{- define "oncelog.clientEnv" -}}
{{ include "oncelog.addressEnv" . }}
{{- if include "oncelog.isSecured" . }}
- name: ONCELOG_TOKEN
  valueFrom: {secretKeyRef: {name: {{ include "oncelog.adminSecret" . }}, key: token}}
{{- end }}
{{- end -}}

{{/* How many pods of a role this release has now; -1 where it has none, or where nobody can be asked. */}}
{{- define "oncelog.replicasNow" -}}
{{- $now := lookup "apps/v1" "StatefulSet" .root.Release.Namespace (printf "%s-%s" (include "oncelog.fullname" .root) .role) -}}
{{- if and $now $now.spec -}}
{{- int $now.spec.replicas -}}
{{- else -}}
-1
{{- end -}}
{{- end -}}
