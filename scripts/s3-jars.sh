#!/bin/sh
# Fetch the jars that Spark needs for checkpoints on S3 into a folder; does nothing where they are there already.
#
#     scripts/s3-jars.sh build/s3-jars
#
# They are pinned by runtime/s3/pom.xml and come through Maven, which checks what it gets.
set -eu

into=${1:?"which folder?"}
here=$(cd "$(dirname "$0")" && pwd)
pom=$here/../runtime/s3/pom.xml
mark=$(sha256sum <"$pom" | cut -c1-12)
[ "$(cat "$into/.mark" 2>/dev/null || true)" != "$mark" ] || exit 0

command -v mvn >/dev/null || "$here/apt-install.sh" maven
rm -rf "$into.part"
mkdir -p "$into.part"
mvn --batch-mode --quiet --strict-checksums -f "$pom" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$(cd "$into.part" && pwd)"
echo "$mark" >"$into.part/.mark"
rm -rf "$into"
mv "$into.part" "$into"
