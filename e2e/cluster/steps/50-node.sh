# What the node's processes need around them: configuration files, the network namespace, kernel settings, volumes.

# config/ with the @NAMES@ filled in.
configure() {
    local file
    mkdir -p "$RUN"/{logs,pids,cni,conf}
    [ -e "$RUN/node-id" ] || head -c 9 /dev/urandom | base64 >"$RUN/node-id"
    [ -e "$RUN/conf/resolv.conf" ] || : >"$RUN/conf/resolv.conf"  # pods ask CoreDNS, and nobody outside
    for file in "$HERE"/config/*; do
        sed -e "s|@RUN@|$RUN|g" -e "s|@PAUSE@|$PAUSE_IMAGE|g" -e "s|@NODE@|$NODE|g" -e "s|@POD_CIDR@|$POD_CIDR|g" \
            -e "s|@DNS_IP@|$DNS_IP|g" "$file" | put "$RUN/conf/$(basename "$file")"
    done
    put "$RUN/cni/10-bridge.conflist" <"$RUN/conf/bridge.conflist"
}

# The node's address sits on a bridge without ports, as not every kernel has the dummy device.
network() {
    if ! in_namespace true 2>/dev/null; then
        rm -f "/run/netns/$NETNS"  # left by a reboot, where /run is on disk
        ip netns add "$NETNS"
    fi
    in_namespace ip link set lo up
    if ! in_namespace ip link show node0 >/dev/null 2>&1; then
        in_namespace ip link add node0 type bridge
        in_namespace ip addr add $NODE_IP/32 dev node0
        in_namespace ip link set node0 up
    fi
    # So that the node itself reaches services.
    in_namespace ip route replace $SERVICE_CIDR dev node0 src $NODE_IP
    in_namespace sysctl -qw net.ipv4.ip_forward=1
    in_namespace sysctl -qw net.bridge.bridge-nf-call-iptables=1
    # A pod that asks for the outside is told "unreachable" every time, not now and then.
    in_namespace sysctl -qw net.ipv4.icmp_ratelimit=0
}

# The kubelet sets the first three; many pods need more of the last.
SYSCTLS=(vm.overcommit_memory kernel.panic kernel.panic_on_oops fs.inotify.max_user_instances)

save_sysctls() {
    local name
    if [ ! -e "$RUN/sysctl.saved" ]; then
        for name in "${SYSCTLS[@]}"; do
            echo "$name=$(sysctl -n "$name")"
        done >"$RUN/sysctl.saved"
    fi
    sysctl -qw fs.inotify.max_user_instances=1024
}

restore_sysctls() {
    [ ! -e "$RUN/sysctl.saved" ] || sysctl -qp "$RUN/sysctl.saved"
    rm -f "$RUN/sysctl.saved"
}

kubectl_admin() { "$BIN/kubectl" --kubeconfig "$RUN/kubeconfig/admin" "$@"; }

# Eight local volumes of the class "standard", which declare ReadWriteMany: on one node every pod reaches them. One that was
# released is made anew, empty.
volumes() {
    local number folder known made=
    known=$(kubectl_admin get pv -o 'jsonpath={range .items[*]}{.metadata.name}={.status.phase}{"\n"}{end}')
    for number in 0 1 2 3 4 5 6 7; do
        ! grep -qE "^shared-$number=(Available|Bound|Pending)$" <<<"$known" || continue
        ! grep -q "^shared-$number=" <<<"$known" || kubectl_admin delete pv shared-$number >/dev/null
        folder=$RUN/pv/shared-$number
        rm -rf "$folder"
        mkdir -p "$folder"
        chmod 777 "$folder"
        made+=$(sed -e "s|@NUMBER@|$number|" -e "s|@FOLDER@|$folder|" -e "s|@NODE@|$NODE|" "$HERE/volume.yaml")$'\n'
    done
    [ -z "$made" ] || kubectl_admin apply -f - >/dev/null <<<"$made"
}
