#!/bin/sh
# pip of the throw-away stage. `pip.sh sbom FILE` lists what /opt/oncelog has, as CycloneDX.
set -eu
[ -s /run/secrets/ca ] && export PIP_CERT=/run/secrets/ca
[ -s /run/secrets/pipconf ] || unset PIP_CONFIG_FILE
if [ "$1" = sbom ]; then
  exec /build/tools/bin/python -m cyclonedx_py environment --pyproject pyproject.toml --mc-type application \
    --output-reproducible --of JSON -o "$2" /opt/oncelog/bin/python
fi
exec /build/tools/bin/python -m pip "$@"
