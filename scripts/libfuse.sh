#!/bin/sh
# Install libfuse, which the tests of faulty disks need. Where it cannot be installed, those tests are skipped.
#
# usage: scripts/libfuse.sh PYTHON
set -eu

if "$1" -c 'import sys; from ctypes.util import find_library as find; sys.exit(not (find("fuse3") or find("fuse")))'; then
    exit 0
fi
"$(dirname "$0")/apt-install.sh" libfuse3-3 libfuse3-4 libfuse2 ||
    echo "binshift: libfuse is missing; tests of faulty disks are skipped (Debian, Ubuntu: apt-get install libfuse3-3)" >&2
