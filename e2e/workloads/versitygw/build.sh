#!/bin/sh
# Build the S3 server that go.mod pins, for Linux, into a folder; does nothing where it is there already.
#
#     e2e/workloads/versitygw/build.sh build/versitygw
set -eu

into=${1:?"which folder?"}
mkdir -p "$into"
into=$(cd "$into" && pwd)
cd "$(dirname "$0")"
command -v go >/dev/null || { echo "needs Go (https://go.dev/doc/install)" >&2; exit 1; }
mark=$({ go version; cat go.mod go.sum build.sh; } | sha256sum | cut -c1-12)
[ "$(cat "$into/.mark" 2>/dev/null || true)" != "$mark" ] || exit 0
GOOS=linux CGO_ENABLED=0 go build -p 2 -trimpath -ldflags '-s -w' -o "$into/versitygw" github.com/versity/versitygw/cmd/versitygw
echo "$mark" >"$into/.mark"
