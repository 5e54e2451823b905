# Debian's packages, and the programs that Debian does not have: Kubernetes and etcd as one binary, CoreDNS, Helm.

DEBIAN_PACKAGES=(
    containerd runc containernetworking-plugins conntrack iptables iproute2 ipset socat util-linux
    debootstrap buildah xz-utils openssl gcc libc6-dev
)
PROMETHEUS_TAGS=remove_all_sd,enable_kubernetes_sd
KUBEBOX_NAMES=(etcd kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl)

install_debian_packages() {
    local missing=() package
    for package in "${DEBIAN_PACKAGES[@]}"; do
        dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    # Their own services (containerd above all) must not start.
    local policy=/usr/sbin/policy-rc.d made=
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod +x $policy
        made=yes
    fi
    local failed=
    # One at a time, as apt-get fails where another one works.
    {
        flock 9
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
    } 9>/tmp/binshift-apt.$(id -u).lock >"$CACHE/apt.log" 2>&1 || failed=yes
    [ -z "$made" ] || rm -f $policy
    [ -z "$failed" ] || { tail "$CACHE/apt.log" >&2; die "apt-get could not install ${missing[*]}"; }
}

# build_go NAME OUTPUT COMMAND...: run the command in source/NAME, unless OUTPUT is of the same source and the same Go.
build_go() {
    local source=$HERE/source/$1 output=$2 mark
    shift 2
    mark=$({ go version; find "$source" -maxdepth 1 \( -name '*.go' -o -name 'go.*' -o -name build.sh \) | sort | xargs cat; } \
        | sha256sum | cut -c1-16)
    [ ! -x "$output" ] || [ "$(cat "$output.src" 2>/dev/null)" != "$mark" ] || return 0
    say "building $(basename "$output"); the first time takes minutes"
    (cd "$source" && CGO_ENABLED=0 "$@") || die "$output could not be built"
    echo "$mark" >"$output.src"
}

helm_version() { grep -om1 'helm.sh/helm/v3 v[0-9.]*' "$HERE/source/helm/go.mod" | cut -d" " -f2; }

build_helm() {
    timed helm build_go helm "$BIN/helm" go build -p 2 -trimpath -o "$BIN/helm" \
        -ldflags "-s -w -X helm.sh/helm/v3/internal/version.version=$(helm_version)" helm.sh/helm/v3/cmd/helm
}

# Prometheus v3.N.M is the Go module's v0.3NN.M. Of its many ways to find targets only Kubernetes' and files are compiled in.
# (Its web pages are not in the module; everything else is.)
prometheus_version() {
    awk '$1 == "github.com/prometheus/prometheus" { split(substr($2, 4), at, "."); printf "3.%d.%d", at[1] - 300, at[2] }' \
        "$HERE/source/prometheus/go.mod"
}

build_prometheus() { # promtool or prometheus
    timed "$1" build_go prometheus "$BIN/$1" go build -p 2 -trimpath -o "$BIN/$1" -tags "$PROMETHEUS_TAGS" \
        -ldflags "-s -w -X github.com/prometheus/common/version.Version=$(prometheus_version)" \
        "github.com/prometheus/prometheus/cmd/$1"
}

need_go() { command -v go >/dev/null || die "needs Go (https://go.dev/doc/install)$1"; }

# tool NAME...: build what is missing of helm, promtool and prometheus, which takes Go and nothing else; say where each is.
tool() {
    local name
    need_go
    for name in "$@"; do
        case $name in
            helm) build_helm ;;
            promtool | prometheus) build_prometheus "$name" ;;
            *) die "there is no tool $name, only helm, promtool and prometheus" ;;
        esac
        echo "$BIN/$name"
    done
}

# KEDA itself is not built: its definition is what manifests are held against.
keda() {
    local module=github.com/kedacore/keda/v2
    need_go
    cd "$HERE/source/keda" && go mod download "$module" && echo "$(go list -m -f '{{.Dir}}' "$module")/config/crd/bases/keda.sh_scaledobjects.yaml"
}

build() {
    need_go " to build Kubernetes, or a cluster given by KUBECONFIG"
    timed packages install_debian_packages
    timed kubebox build_go kubernetes "$BIN/kubebox" ./build.sh "$BIN/kubebox"
    timed coredns build_go coredns "$BIN/coredns" go build -p 2 -trimpath -ldflags '-s -w' -o "$BIN/coredns" .
    build_helm
    local name
    for name in "${KUBEBOX_NAMES[@]}"; do
        ln -sf kubebox "$BIN/$name"
    done
}
