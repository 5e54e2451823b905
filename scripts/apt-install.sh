#!/bin/sh
# Install the first of the named system packages that this distribution has; fail quietly where that cannot be done.
#
# usage: scripts/apt-install.sh PACKAGE [ALTERNATIVE ...]
#
# Needs apt-get, and root or a sudo that asks nothing. Its callers answer on stdout, so it says nothing there; what a person
# should do when it fails is for them to say.
set -eu

if ! command -v apt-get >/dev/null 2>&1; then
    exit 1
elif [ "$(id -u)" -eq 0 ]; then
    sudo=
elif sudo -n true 2>/dev/null; then
    sudo="sudo -n"
else
    exit 1
fi

echo "binshift: installing $1 with apt-get" >&2
# One at a time, as apt-get fails where another one works.
if command -v flock >/dev/null; then
    exec 9>>/tmp/binshift-apt.$(id -u).lock
    flock 9
fi
# A machine fresh from an image has no package lists, or old ones that name files long gone.
$sudo apt-get update -qq >/dev/null
for package in "$@"; do
    if $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null; then
        exit 0
    fi
done
exit 1
