{{/* What security.enabled adds to pods: a certificate each, TLS to the databases, a login for clients. */}}

{{/* "true", or nothing. An upgrade with --reuse-values has no values that are new in this version of the chart. */}}
{{- define "oncelog.isSecured" -}}
{{- if (.Values.security).enabled }}true{{ end -}}
{{- end -}}

{{/* The parts of a release that prove who they are, with the names under which they are reached, as YAML. */}}
{{- define "oncelog.identities" -}}
{{- $root := . -}}
{{- $full := include "oncelog.fullname" . -}}
{{- range $role := list "controller" "storage" "coordinator" "marker-sender" "listener" "gateway" }}
{{ $role }}:
  - {{ $role }}.oncelog.internal
  - oncelog.internal
  {{- if eq $role "listener" }}
  - localhost
  - {{ $full }}-listener
  - {{ $full }}-listener.{{ $root.Release.Namespace }}
  - {{ $full }}-listener.{{ $root.Release.Namespace }}.svc
  - {{ include "oncelog.host" (dict "root" $root "service" "listener") }}
  - "*.{{ include "oncelog.host" (dict "root" $root "service" "listener-nodes") }}"
  {{- range $index := until (int $root.Values.listener.replicas) }}
  - {{ include "oncelog.host" (dict "root" $root "service" (printf "listener-%d-clients" (add 301 $index))) }}
  {{- end }}
  {{- range $root.Values.listener.external.hosts | uniq }}
  {{- if ne . "localhost" }}
  - {{ . | quote }}
  {{- end }}
  {{- end }}
  {{- end }}
{{- end }}
{{- if eq .Values.security.clients.protocol "SSL" }}
admin:
  - admin
{{- end }}
{{- if .Values.postgres.bundled }}
postgres:
  - {{ include "oncelog.host" (dict "root" . "service" "postgres") }}
{{- end }}
{{- if and .Values.redis.enabled .Values.redis.bundled }}
redis:
  - {{ include "oncelog.host" (dict "root" . "service" "redis") }}
{{- end }}
{{- end -}}

{{/* Arguments: root, name (of an identity). */}}
{{- define "oncelog.tlsSecret" -}}
{{- $prefix := default (include "oncelog.fullname" .root) .root.Values.security.certificates.secretPrefix -}}
{{ $prefix }}-{{ .name }}-tls
{{- end -}}

{{- define "oncelog.adminSecret" -}}
{{ include "oncelog.fullname" . }}-admin
{{- end -}}

{{/* What holds the login for /metrics of every process but the gateway; nothing: there is none. */}}
{{- define "oncelog.metricsSecret" -}}
{{- if (.Values.metrics).tokenSecret -}}
{{ .Values.metrics.tokenSecret }}
{{- else if include "oncelog.isSecured" . -}}
{{ include "oncelog.fullname" . }}-metrics
{{- end -}}
{{- end -}}

{{- define "oncelog.tlsMount" -}}
- {name: tls, mountPath: /etc/oncelog-tls, readOnly: true}
{{- end -}}

{{/* Arguments: root, name. */}}
{{- define "oncelog.tlsVolume" -}}
- name: tls
  # Its pod's group reads it, and nobody else.
  secret: {secretName: {{ include "oncelog.tlsSecret" . | quote }}, defaultMode: 0440}
{{- end -}}

{{- define "oncelog.tlsEnv" -}}
- {name: ONCELOG_NODE_TLS_CERTIFICATE_FILE, value: /etc/oncelog-tls/tls.crt}
- {name: ONCELOG_NODE_TLS_KEY_FILE, value: /etc/oncelog-tls/tls.key}
- {name: ONCELOG_NODE_TLS_CA_FILE, value: /etc/oncelog-tls/ca.crt}
{{- end -}}

{{/* How the `oncelog` command, and Kafka's tools with --command-config, log in as the administrator. */}}
{{- define "oncelog.clientProperties" -}}
bootstrap.servers={{ include "oncelog.host" (dict "root" . "service" "listener") }}:{{ .Values.listener.service.port }}
security.protocol={{ .Values.security.clients.protocol }}
ssl.truststore.type=PEM
ssl.truststore.location=/etc/oncelog-client/ca.crt
{{- end -}}

{{- define "oncelog.clientMount" -}}
- {name: client, mountPath: /etc/oncelog-client, readOnly: true}
{{- end -}}

{{- define "oncelog.clientVolume" -}}
{{- $isSsl := eq .Values.security.clients.protocol "SSL" -}}
- name: client
  projected:
    defaultMode: 0440
    sources:
      - secret: {name: {{ include "oncelog.adminSecret" . }}, items: [{key: client.properties, path: client.properties}]}
      - secret:
          name: {{ include "oncelog.tlsSecret" (dict "root" . "name" ($isSsl | ternary "admin" "listener")) }}
          items:
            - {key: ca.crt, path: ca.crt}
            {{- if $isSsl }}
            - {key: tls.crt, path: tls.crt}
            - {key: tls.key, path: tls.key}
            {{- end }}
{{- end -}}

{{/* Startup, liveness and readiness. `liveness`: its event loop answers, however late: another process would be no faster on a
machine that has too much to do. Ready: it has registered, and its role has started. A start takes some seconds, in which
nobody asks: each answer that is no yet would be an event. Kubelet speaks gRPC without TLS only; with TLS between processes
it asks the same at the port of metrics. */}}
{{- define "oncelog.probes" -}}
{{- $isSecured := include "oncelog.isSecured" . -}}
startupProbe:
  {{- include "oncelog.probe" (dict "isSecured" $isSecured "asks" "liveness") | nindent 2 }}
  initialDelaySeconds: 3
  periodSeconds: 3
  timeoutSeconds: 10
  failureThreshold: 60
livenessProbe:
  {{- include "oncelog.probe" (dict "isSecured" $isSecured "asks" "liveness") | nindent 2 }}
  periodSeconds: 10
  timeoutSeconds: 30
  failureThreshold: 4
readinessProbe:
  {{- include "oncelog.probe" (dict "isSecured" $isSecured "asks" "readiness") | nindent 2 }}
  initialDelaySeconds: 4
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 2
{{- end -}}

{{- define "oncelog.probe" -}}
{{- if .isSecured -}}
httpGet: {port: metrics, path: {{ eq .asks "liveness" | ternary "/health" "/ready" }}}
{{- else if eq .asks "liveness" -}}
grpc: {port: 9090, service: liveness}
{{- else -}}
grpc: {port: 9090}
{{- end -}}
{{- end -}}

{{/* The listeners of a secured release: clients log in, from inside and from outside. */}}
{{- define "oncelog.securedListeners" -}}
{{- $here := contains ":" .Values.bindAddress | ternary (printf "[%s]" .Values.bindAddress) .Values.bindAddress -}}
{{- $protocol := .Values.security.clients.protocol -}}
{{- $addresses := list (printf "CLIENTS://%s:9092" $here) -}}
{{- $protocols := list (printf "CLIENTS:%s" $protocol) -}}
{{- if .Values.listener.external.enabled -}}
{{- $addresses = append $addresses (printf "EXTERNAL://%s:%d" $here (int .Values.listener.external.port)) -}}
{{- $protocols = append $protocols (printf "EXTERNAL:%s" $protocol) -}}
{{- end -}}
- name: ONCELOG_LISTENER_LISTENERS
  value: {{ join "," $addresses | quote }}
- name: ONCELOG_LISTENER_LISTENER_SECURITY_PROTOCOL_MAP
  value: {{ join "," $protocols | quote }}
- name: ONCELOG_LISTENER_ADVERTISED_LISTENERS
  value: CLIENTS://{{ include "oncelog.listenerName" . }}:9092
- {name: ONCELOG_LISTENER_SSL_CERTIFICATE_FILE, value: /etc/oncelog-tls/tls.crt}
- {name: ONCELOG_LISTENER_SSL_KEY_FILE, value: /etc/oncelog-tls/tls.key}
- {name: ONCELOG_LISTENER_SSL_CA_FILE, value: /etc/oncelog-tls/ca.crt}
- name: ONCELOG_LISTENER_SSL_CLIENT_AUTH
  value: {{ eq $protocol "SSL" | ternary "required" "none" }}
# CN=alice,O=… and O=…,CN=alice are User:alice, as with SCRAM. An escaped comma ends no part: `O=x\,CN=admin` is nobody's CN.
- name: ONCELOG_LISTENER_SSL_PRINCIPAL_MAPPING_RULES
  value: 'RULE:^(?:(?:[^,\\]|\\.)*,)*?CN=((?:[^,\\]|\\.)+)(?:,.*)?$/$1/,DEFAULT'
- {name: ONCELOG_LISTENER_AUTHORIZER, value: acl}
- name: ONCELOG_LISTENER_SUPER_USERS
  value: {{ prepend .Values.security.clients.superUsers "admin" | uniq | join ";User:" | printf "User:%s" | quote }}
{{- end -}}

{{/* What cannot be. */}}
{{- define "oncelog.securityChecks" -}}
{{- $security := .Values.security -}}
{{- if include "oncelog.isSecured" . -}}
{{- if and (eq $security.certificates.source "certManager") (not $security.certificates.issuer.name) -}}
{{- fail "security.certificates.source=certManager needs security.certificates.issuer.name: the Issuer that signs" -}}
{{- end -}}
{{- if and $security.certificates.secretPrefix (ne $security.certificates.source "given") -}}
{{- fail "security.certificates.secretPrefix is for security.certificates.source=given: the release names Secrets of its own" -}}
{{- end -}}
{{- if and .Values.listener.external.enabled (eq .Values.listener.external.type "NodePort") (not .Values.listener.external.hosts) -}}
{{- fail "security.enabled with listener.external needs listener.external.hosts: a certificate names what clients connect to" -}}
{{- end -}}
{{- range list "listeners" "listener_security_protocol_map" "advertised_listeners" "ssl_certificate_file" "ssl_key_file" "ssl_ca_file" "ssl_client_auth" "ssl_principal_mapping_rules" "authorizer" "super_users" -}}
{{- if hasKey ($.Values.config.listener | default dict) . -}}
{{- fail (printf "config.listener.%s with security.enabled: the chart sets it then; see security.clients" .) -}}
{{- end -}}
{{- end -}}
{{- range list "authentication" "admin_token_file" -}}
{{- if hasKey ($.Values.config.gateway | default dict) . -}}
{{- fail (printf "config.gateway.%s with security.enabled: the chart sets it then" .) -}}
{{- end -}}
{{- end -}}
{{- if hasKey ($.Values.config.process | default dict) "metrics_token_file" -}}
{{- fail "config.process.metrics_token_file with security.enabled: the chart sets it then; see metrics.tokenSecret" -}}
{{- end -}}
{{- end -}}
{{- end -}}
