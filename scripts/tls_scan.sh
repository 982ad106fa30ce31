#!/usr/bin/env bash
# The listener's and the gateway's TLS against Mozilla's profiles, by sslyze. Usage: tls_scan.sh BIN ENVIRONMENT-OF-SSLYZE
# As they come they must be no weaker than "intermediate"; with TLS 1.3 alone, no weaker than "modern".
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 sslyze=$2
folder=$(mktemp -d)
running=
finish() {
  if [ -n "$running" ]; then kill "$running" 2>/dev/null && wait "$running" || true; fi
  rm -rf "$folder"
}
trap finish EXIT
# "modern" wants certificates of at most 90 days.
"$bin/oncelog" pki "$folder/pki" --days 89 >/dev/null

scan() { # PROFILE PROTOCOLS
  rm -f "$folder/ready"
  ONCELOG_LISTENER_LISTENERS=SSL://127.0.0.1:0 ONCELOG_LISTENER_SSL_ENABLED_PROTOCOLS=$2 \
    ONCELOG_LISTENER_SSL_CERTIFICATE_FILE=$folder/pki/listener.pem ONCELOG_LISTENER_SSL_KEY_FILE=$folder/pki/listener.key \
    ONCELOG_GATEWAY_TLS_CERTIFICATE_FILE=$folder/pki/gateway.pem ONCELOG_GATEWAY_TLS_KEY_FILE=$folder/pki/gateway.key \
    ONCELOG_GATEWAY_TLS_ENABLED_PROTOCOLS=$2 \
    "$bin/oncelog" up --ephemeral --gateway-port 0 --ready-file "$folder/ready" >"$folder/log" 2>&1 &
  running=$!
  for _ in $(seq 300); do
    [ -s "$folder/ready" ] && break
    kill -0 "$running" 2>/dev/null || break
    sleep 0.2
  done
  [ -s "$folder/ready" ] || { cat "$folder/log"; exit 1; }
  listener=$(sed -E 's/.*"bootstrap": "[^:]*:([0-9]+)".*/\1/' "$folder/ready")
  gateway=$(sed -E 's/.*"gateway": "https:[^:]*:([0-9]+)".*/\1/' "$folder/ready")
  echo "$2: listener is localhost:$listener, gateway is localhost:$gateway"
  found=0
  "$sslyze/bin/python" -m sslyze --mozilla_config "$1" --certinfo_ca_file "$folder/pki/ca.pem" \
    "localhost:$listener" "localhost:$gateway" >"$folder/scan" 2>&1 || found=$?
  sed -n '/COMPLIANCE/,$p' "$folder/scan"
  # sslyze's own end says the same; this is against a scan that reached nobody.
  [ "$(grep -c 'OK - Compliant' "$folder/scan")" = 2 ] && [ "$found" = 0 ] || { cat "$folder/scan"; exit 1; }
  kill "$running" && wait "$running" || true
  running=
}

scan intermediate TLSv1.2,TLSv1.3
scan modern TLSv1.3
