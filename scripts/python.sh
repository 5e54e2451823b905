#!/bin/sh
# Print the path of a Python that binshift runs on (3.11 to 3.13, with venv), or say in one line what is missing.
#
# Looks at $PYTHON if set, else at python3, python3.13, python3.12 and python3.11 on the PATH, in this order. Also the place
# where the machine itself is checked, as this is the first thing every set-up does.
set -eu

refuse() {
    echo "binshift: $1" >&2
    exit 1
}

case "$(uname -s) $(uname -m)" in
    "Linux x86_64" | "Linux aarch64" | "Linux arm64") ;;
    *) refuse "runs on Linux on x86-64 or arm64; this is $(uname -s) on $(uname -m). Use a container or a virtual machine." ;;
esac

fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

if [ -n "${PYTHON:-}" ]; then
    fits "$PYTHON" || refuse "needs Python 3.11, 3.12 or 3.13; PYTHON=$PYTHON is $("$PYTHON" -V 2>&1 || true)."
    echo "$PYTHON"
    exit 0
fi
for candidate in python3 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null 2>&1 && fits "$candidate"; then
        # The real interpreter, not a version manager's shim, which may mean another one tomorrow.
        "$candidate" -c 'import sys; print(sys.executable)'
        exit 0
    fi
done
refuse "needs Python 3.11, 3.12 or 3.13 on the PATH; found $(python3 -V 2>&1 || echo none). Install one, or name it: make PYTHON=/path/to/python"
