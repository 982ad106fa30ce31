{{/* Names, labels and images of the release's objects. */}}

{{- define "oncelog.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "oncelog.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .role | quote }}
{{- end -}}

{{- define "oncelog.labels" -}}
{{ include "oncelog.lastingLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | quote }}
{{- end -}}

{{/* Of pods that another version of oncelog does not change: an upgrade would end a database beside those who need it. */}}
{{- define "oncelog.lastingLabels" -}}
{{ include "oncelog.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service | quote }}
app.kubernetes.io/part-of: oncelog
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "oncelog.image" -}}
{{- $image := .root.Values.image -}}
{{- $path := printf "%s/%s:%s" $image.repository .role (default .root.Chart.AppVersion $image.tag) -}}
{{- if $image.registry -}}{{ $image.registry }}/{{ end -}}{{ $path }}
{{- end -}}

{{- define "oncelog.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "oncelog.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* DNS name of a Service of the release, from any namespace. */}}
{{- define "oncelog.host" -}}
{{ include "oncelog.fullname" .root }}-{{ .service }}.{{ .root.Release.Namespace }}.svc.{{ .root.Values.clusterDomain }}
{{- end -}}
