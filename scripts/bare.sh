#!/usr/bin/env bash
# Run make targets of a fresh clone of this repository on a bare machine: a minimal Debian with Python, make and git.
#
# usage: scripts/bare.sh MAKE_ARGUMENT...
#
# The root file system is made by debootstrap in a temporary folder and removed at the end. It has a mount and a process
# namespace of its own, so that nothing outlives the run, and the host's network: its package registries, its name service
# and its certificates. Only committed files are cloned. Needs root and Debian's debootstrap, which is installed where missing.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(id -u)" -ne 0 ]; then
    echo "binshift: a bare root file system is made by root only; run: sudo make bare" >&2
    exit 1
fi
if ! command -v debootstrap >/dev/null && ! scripts/apt-install.sh debootstrap; then
    echo "binshift: debootstrap is missing and could not be installed (Debian, Ubuntu: apt-get install debootstrap)" >&2
    exit 1
fi

if [ "${1:-}" != --inside-namespaces ]; then
    exec unshare --mount --pid --fork --kill-child "$0" --inside-namespaces "$@"
fi
shift

root=$(mktemp -d)
trap 'umount --recursive --lazy "$root"; rmdir "$root"' EXIT
mount --make-rprivate /
# Small files by the ten thousand are written and thrown away: no disk has to keep them.
mount -t tmpfs -o mode=755 tmpfs "$root"

# The first repository of the host with a Release file of its own, and the release that it serves.
read -r mirror release < <(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages')
echo "--- debootstrap $release with Python, make and git"
debootstrap --variant=minbase --include=python3,make,git "$release" "$root" "$mirror" >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; exit 1; }
rm "$root.log"

mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
git clone --quiet "file://$PWD" "$root/binshift"

# The host's way to the registries, and no other of its variables.
pass=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_INDEX_URL PIP_EXTRA_INDEX_URL UV_DEFAULT_INDEX; do
    if [ -n "${!name:-}" ]; then pass+=("$name=${!name}"); fi
done
for name in SSL_CERT_FILE PIP_CERT; do
    if [ -n "${!name:-}" ]; then
        cp -L "${!name}" "$root/etc/host-certificates.crt"
        pass+=("$name=/etc/host-certificates.crt")
    fi
done

echo "--- make $*"
chroot "$root" env -i "${pass[@]}" make -C /binshift "$@"
