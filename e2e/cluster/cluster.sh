#!/bin/bash
# A real Kubernetes node on this machine: built from source, without Docker, systemd, a registry or the internet.
#
#   cluster.sh up                  build what is missing, start everything, wait until the node is Ready and DNS answers
#   cluster.sh down                end everything; what etcd, the images and the certificates hold is kept for the next `up`
#   cluster.sh wipe                down, and the next `up` starts an empty cluster; what was built is kept
#   cluster.sh image NAME:TAG DIRECTORY [OPTION...]    build a Dockerfile (OPTIONs are buildah's) and load the image
#   cluster.sh build NAME:TAG DIRECTORY [OPTION...]    the same without loading: what other images start FROM
#   cluster.sh load-built NAME:TAG                     load an image that `build` made
#   cluster.sh load FILE           load a docker or OCI archive into the node
#   cluster.sh remove NAME:TAG     remove an image from the node
#   cluster.sh volumes             make released volumes anew, empty
#   cluster.sh end NAME            end one process of the control plane; `up` starts it again
#   cluster.sh tool NAME...        build helm, promtool or prometheus, and say where it is; takes no node, nor root
#   cluster.sh keda                download KEDA's definition of ScaledObjects, and say where it is; takes Go and nothing else
#   cluster.sh status | env        what runs; shell lines that set KUBECONFIG and PATH
#
# Needs root, Debian's packages, Go, and the Go module proxy for the first build (ten minutes of two cores). Everything is
# under ${XDG_CACHE_HOME:-~/.cache}/kube-node. All network traffic of the cluster stays in a network namespace; the API
# server is reached at a port of the host's loopback through a Unix socket. Every step does nothing where its result is
# there already, so that `up` may be called at any time. README.md has the reasons.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for step in "$HERE"/steps/*.sh; do
    # shellcheck source=/dev/null
    . "$step"
done

# A function, so that all of it has been read before any of it runs: this file may be edited meanwhile.
main() {
    case "${1:-}" in
        up | down | wipe | status | volumes | remove | tool | keda) "$@" ;;
        image) shift; build_and_load "$@" ;;
        build) shift; build_only "$@" ;;
        load-built) load_built "${2:?which image?}" ;;
        load) load "${2:?which file?}" ;;
        end) end "${2:?which process?}" ;;
        env) printf 'export KUBECONFIG=%q PATH=%q:$PATH\n' "$HOME_DIR/kubeconfig" "$BIN" ;;
        *) sed -n '2,17p' "${BASH_SOURCE[0]}"; exit 2 ;;
    esac
    exit
}

main "$@"
