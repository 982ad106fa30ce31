#!/usr/bin/env bash
# The TLS of the listener, of the gateway and between processes against Mozilla's profiles, by sslyze. Usage: tls_scan.sh BIN ENVIRONMENT-OF-SSLYZE
# As they come they must be no weaker than "intermediate"; with TLS 1.3 alone, no weaker than "modern".
# gRPC for Python lets nobody choose curves, and takes one that no profile names: a stronger one. So what is between
# processes must be "modern" but for that curve.
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

scan_between_processes() {
  "$bin/python" - "$folder/pki" >"$folder/port" 2>"$folder/log" <<'PYTHON' &
import asyncio
import sys
from pathlib import Path

from oncelog.rpc.mutual_tls import MutualTls
from oncelog.rpc.server import RpcServer
from oncelog.rpc.sessions import SessionLimits


async def serve(folder: Path) -> None:
    tls = MutualTls(folder / "storage.pem", folder / "storage.key", folder / "ca.pem")
    server = RpcServer("127.0.0.1", 0, SessionLimits(tls=tls))
    await server.start()
    print(server.port, flush=True)
    await asyncio.Event().wait()


asyncio.run(serve(Path(sys.argv[1])))
PYTHON
  running=$!
  for _ in $(seq 100); do
    [ -s "$folder/port" ] && break
    sleep 0.2
  done
  [ -s "$folder/port" ] || { cat "$folder/log"; exit 1; }
  port=$(cat "$folder/port")
  echo "the server of every role, for other processes, is localhost:$port"
  "$sslyze/bin/python" -m sslyze --mozilla_config modern --certinfo_ca_file "$folder/pki/ca.pem" \
    --cert "$folder/pki/gateway.pem" --key "$folder/pki/gateway.key" "localhost:$port" >"$folder/scan" 2>&1 || true
  sed -n '/COMPLIANCE/,$p' "$folder/scan"
  known="        * tls_curves: TLS curves {'secp521r1'} are supported, but should be rejected."
  differs=$(sed -n '/COMPLIANCE/,$p' "$folder/scan" | grep '^ *\* ' || true)
  grep -q "localhost:$port: \(OK\|FAILED\)" "$folder/scan" || { cat "$folder/scan"; exit 1; }
  [ -z "$differs" ] || [ "$differs" = "$known" ] || { cat "$folder/scan"; exit 1; }
  kill "$running" && wait "$running" || true
  running=
}

scan intermediate TLSv1.2,TLSv1.3
scan modern TLSv1.3
scan_between_processes
