#!/bin/sh
# Install Chromium and a font, with which the tests of the control port's page run. Other targets than `make page` skip them where it is missing.
#
# usage: scripts/chromium.sh
set -eu

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then exit 0; fi
done
here=$(dirname "$0")
"$here/apt-install.sh" fonts-liberation fonts-dejavu-core || true
"$here/apt-install.sh" chromium || {
    echo "binshift: Chromium is missing and could not be installed (Debian: apt-get install chromium)" >&2
    exit 1
}
