#!/bin/sh
# Print the home of a Java that Spark runs on (17 or 21), installing one from the system's packages if there is none.
#
# Looks at $JAVA_HOME, then at `java` on the PATH, then where Linux distributions keep theirs. A Java counts only if it
# starts with the module jdk.incubator.vector, which Spark's launcher demands and cut-down runtimes lack.
# Everything but the answer goes to stderr.
set -eu

# The home of the Java whose launcher is $1, if Spark can run on it; else nothing.
home_for_spark() {
    "$1" --add-modules jdk.incubator.vector -XshowSettings:properties -version 2>&1 | awk '
        /java\.specification\.version = / { version = $3 }
        /java\.home = / { sub(/.*java\.home = /, ""); home = $0 }
        END { if (version == 17 || version == 21) print home }'
}

find_java() {
    for launcher in "${JAVA_HOME:-/nowhere}/bin/java" "$(command -v java || true)" \
        /usr/lib/jvm/*17*/bin/java /usr/lib/jvm/*21*/bin/java; do
        [ -x "$launcher" ] || continue
        home=$(home_for_spark "$launcher")
        if [ -n "$home" ]; then
            echo "$home"
            return 0
        fi
    done
    return 1
}

# Distributions carry one of the two, or both.
if find_java || { "$(dirname "$0")/apt-install.sh" openjdk-17-jre-headless openjdk-21-jre-headless && find_java; }; then
    exit 0
fi
echo "binshift: Spark needs Java 17 or 21. Install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless)" \
    "or set JAVA_HOME to one." >&2
exit 1
