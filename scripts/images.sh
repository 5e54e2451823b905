#!/usr/bin/env bash
# Build the images for several platforms: one OCI layout for each image, with an index of its platforms.
#
# usage: scripts/images.sh DIRECTORY VERSION
#
#   PLATFORMS    "linux/amd64 linux/arm64" by default
#   TARGETS      of the Dockerfile; "operator spark" by default
#   OPTIONS      further options for buildah, such as --build-arg BASE_IMAGE=...
#
# buildah builds, without a daemon. Platforms other than this machine's run in QEMU, which is registered with the kernel if it is
# not yet; an image that is built so has no class archive (docs/building-images.md).
set -euo pipefail
cd "$(dirname "$0")/.."
into=${1:?"which folder?"} version=${2:?"which version?"}
read -ra options <<<"${OPTIONS:-}"
certificates=/etc/ssl/certs/ca-certificates.crt

need() {
    command -v "$1" >/dev/null || scripts/apt-install.sh "$2" || {
        echo "binshift: $1 is missing and could not be installed (Debian, Ubuntu: apt-get install $2)" >&2
        exit 1
    }
}

is_foreign() { case "$1:$(uname -m)" in linux/amd64:x86_64 | linux/arm64:aarch64) false ;; esac; }

# emulate PLATFORM: have the kernel run its programs by QEMU, from within any root file system.
emulate() {
    local machine formats=/proc/sys/fs/binfmt_misc
    case "$1" in linux/amd64) machine=x86_64 ;; linux/arm64) machine=aarch64 ;; *) machine=${1#linux/} ;; esac
    [ ! -e "$formats/qemu-$machine" ] || return 0
    need "qemu-$machine-static" qemu-user-static
    [ -e "$formats/register" ] || as_root mount -t binfmt_misc binfmt_misc "$formats"
    [ -e "$formats/qemu-$machine" ] || as_root tee "$formats/register" <"/usr/lib/binfmt.d/qemu-$machine.conf" >/dev/null || {
        echo "binshift: only root can register QEMU with the kernel for $1: run this as root, or once with sudo" >&2
        exit 1
    }
}

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }

# build TARGET PLATFORM INDEX: an image, which is added to the index. The certificates are there while RUN lines run, and not kept.
build() {
    local given=(--target "$1" --platform "$2" --manifest "$3")
    if is_foreign "$2"; then given+=(--build-arg CLASS_ARCHIVE=); fi
    if [ -n "${PIP_INDEX_URL:-}" ]; then given+=(--build-arg "PIP_INDEX_URL=$PIP_INDEX_URL"); fi
    if [ -e $certificates ]; then given+=(--volume "$certificates:$certificates:ro"); fi
    buildah bud --quiet --format oci --isolation chroot --network host --layers \
        --label "org.opencontainers.image.version=$version" "${given[@]}" "${options[@]}" . >/dev/null
}

need buildah buildah
scripts/s3-jars.sh build/s3-jars
mkdir -p "$into"
for target in ${TARGETS:-operator spark}; do
    name=binshift-$target
    index=localhost/$name:$version-index
    buildah manifest rm "$index" >/dev/null 2>&1 || true
    for platform in ${PLATFORMS:-linux/amd64 linux/arm64}; do
        begun=$SECONDS
        if is_foreign "$platform"; then emulate "$platform"; fi
        build "$target" "$platform" "$index"
        echo "$name for $platform: $((SECONDS - begun)) s"
    done
    rm -rf "${into:?}/$name"
    buildah manifest push --quiet --all --format oci "$index" "oci:$into/$name:$version"
done
