#!/bin/sh
# Fetch the jars that Spark needs for checkpoints on S3 into a folder; does nothing where they are there already.
#
#     scripts/s3-jars.sh build/s3-jars
#
# They are pinned by runtime/s3/pom.xml.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
exec "$here/maven-jars.sh" "$here/../runtime/s3/pom.xml" "${1:?"which folder?"}"
