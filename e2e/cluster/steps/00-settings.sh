# Where things are and what they are called; how a step speaks.

HOME_DIR=${BINSHIFT_NODE_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/kube-node}
BIN=$HOME_DIR/bin      # what was built
CACHE=$HOME_DIR/cache  # images and what they are made of
RUN=$HOME_DIR/run      # one cluster: its data, sockets, certificates, logs

NETNS=${BINSHIFT_NODE_NETNS:-kube}
NODE=node1
NODE_IP=10.250.0.1
POD_CIDR=10.244.0.0/24
SERVICE_CIDR=10.96.0.0/16
API_SERVICE_IP=10.96.0.1
DNS_IP=10.96.0.10
API_PORT=${BINSHIFT_NODE_PORT:-6443}  # in the namespace, and on the host's loopback

PAUSE_IMAGE=localhost/pause:3.10
COREDNS_IMAGE=localhost/coredns:dev
PYTHON_IMAGE=docker.io/library/python:3.11-slim-bookworm  # what the Dockerfile starts FROM
CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt

mkdir -p "$BIN" "$CACHE" "$RUN"

say() { printf '%s %s\n' "$(date +%T)" "$*" >&2; }

die() {
    say "cluster.sh: $*"
    exit 1
}

# timed NAME COMMAND...: say how long a step took, if that is worth saying.
timed() {
    local name=$1 begun=$SECONDS
    shift
    "$@"
    [ $((SECONDS - begun)) -lt 2 ] || say "$name: $((SECONDS - begun)) s"
}

# wait_for SECONDS WHAT COMMAND...
wait_for() {
    local seconds=$1 what=$2 end=$((SECONDS + $1))
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || die "gave up waiting for $what after $seconds s; logs are in $RUN/logs"
        sleep 0.25
    done
}

# put FILE: write what comes on stdin, if that is new (kube-proxy ends itself when its file is written, even with the same text).
put() {
    local text
    text=$(cat)
    [ "$text" = "$(cat "$1" 2>/dev/null)" ] || printf '%s\n' "$text" >"$1"
}
