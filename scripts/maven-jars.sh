#!/bin/sh
# Fetch the jars of a pom and of all that it needs into a folder; does nothing where they are there already.
#
#     scripts/maven-jars.sh POM DIRECTORY
#
# Maven checks what it gets. The folder appears at once, or not at all.
set -eu

pom=${1:?"which pom?"}
into=${2:?"which folder?"}
mark=$(sha256sum <"$pom" | cut -c1-12)
[ "$(cat "$into/.mark" 2>/dev/null || true)" != "$mark" ] || exit 0

command -v mvn >/dev/null || "$(dirname "$0")/apt-install.sh" maven || {
    echo "binshift: Maven is missing and could not be installed (Debian, Ubuntu: apt-get install maven)" >&2
    exit 1
}
rm -rf "$into.part"
mkdir -p "$into.part"
mvn --batch-mode --quiet --strict-checksums -f "$pom" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$(cd "$into.part" && pwd)"
echo "$mark" >"$into.part/.mark"
rm -rf "$into"
mv "$into.part" "$into"
