#!/bin/sh
# slim.sh FOLDER: makes an environment small and ready to run on a read-only file system.
# slim.sh sourceless FOLDER [PACKAGE]: leaves only what is run: of every package, or of one, then without docstrings.
set -eu
if [ "$1" = sourceless ]; then
  packages=$(echo "$2"/lib/python3*/site-packages)${3:+/$3}
  find "$packages" -name __pycache__ -prune -exec rm -r {} +
  /opt/oncelog/bin/python -m compileall -q -j 0 -b ${3:+-o 2} --invalidation-mode unchecked-hash "$packages"
  find "$packages" -name '*.py' -delete
  exit
fi
site=$(echo "$1"/lib/python3*/site-packages)
# The big modules that were compiled from C are mostly debug symbols. Libraries beside modules (*.libs) were moved by the
# tool that made the wheel, and may not survive this.
find "$site" \( -name '*.cpython-*.so' -o -name '*.abi3.so' \) -size +250k -not -path '*.libs/*' -exec strip --strip-unneeded {} +
# Sources of compiled modules, and what packages carry for tests of others.
find "$site" \( -name '*.pyx' -o -name '*.pxd' -o -name '*.c' -o -name '*.pyi' \) -type f -delete
rm -rf "$site/sqlalchemy/testing" "$site/alembic/testing" "$site"/confluent_kafka/kafkatest "$site"/confluent_kafka/avro \
  "$site/confluent_kafka/schema_registry" "$site/crc32c/ext" "$1/include" "$1"/bin/[Aa]ctivate*
# Nobody changes a file of an image, so a start need not compare the compiled one with it.
/opt/oncelog/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash "$1/lib"
