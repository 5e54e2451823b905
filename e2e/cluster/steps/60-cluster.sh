# The order of things: up, down, wipe, status.

start_control_plane() {
    start etcd namespace "$BIN/etcd" --name $NODE --data-dir "$RUN/etcd" --log-level warn --unsafe-no-fsync \
        --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
        --initial-cluster $NODE=http://127.0.0.1:2380
    start kube-apiserver namespace "$BIN/kube-apiserver" --etcd-servers http://127.0.0.1:2379 \
        --secure-port "$API_PORT" --advertise-address $NODE_IP --service-cluster-ip-range $SERVICE_CIDR \
        --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged=true --profiling=false \
        --client-ca-file "$PKI/ca.crt" --tls-cert-file "$PKI/apiserver.crt" --tls-private-key-file "$PKI/apiserver.key" \
        --kubelet-client-certificate "$PKI/apiserver-kubelet-client.crt" --kubelet-client-key "$PKI/apiserver-kubelet-client.key" \
        --kubelet-certificate-authority "$PKI/ca.crt" --kubelet-preferred-address-types InternalIP \
        --service-account-key-file "$PKI/sa.pub" --service-account-signing-key-file "$PKI/sa.key" \
        --service-account-issuer https://kubernetes.default.svc.cluster.local \
        --requestheader-client-ca-file "$PKI/front-ca.crt" --requestheader-allowed-names front-proxy-client \
        --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
        --requestheader-extra-headers-prefix X-Remote-Extra- \
        --proxy-client-cert-file "$PKI/front-proxy-client.crt" --proxy-client-key-file "$PKI/front-proxy-client.key"
    start_entrance
    start_manager kube-controller-manager controller-manager --use-service-account-credentials --root-ca-file "$PKI/ca.crt" \
        --service-account-private-key-file "$PKI/sa.key" --client-ca-file "$PKI/ca.crt" \
        --cluster-signing-cert-file "$PKI/ca.crt" --cluster-signing-key-file "$PKI/ca.key" \
        --requestheader-client-ca-file "$PKI/front-ca.crt"
    start_manager kube-scheduler scheduler
}

start_manager() { # NAME KUBECONFIG OPTION...
    local name=$1 config=$RUN/kubeconfig/$2
    shift 2
    start "$name" namespace "$BIN/$name" --kubeconfig "$config" --authentication-kubeconfig "$config" \
        --authorization-kubeconfig "$config" --leader-elect=false --bind-address 127.0.0.1 --profiling=false "$@"
}

# The host's loopback -> a Unix socket -> the namespace's loopback: no device, route or rule on the host.
start_entrance() {
    alive api-in || rm -f "$RUN/api.sock"
    start api-in namespace socat "UNIX-LISTEN:$RUN/api.sock,fork,backlog=256,mode=600" "TCP:127.0.0.1:$API_PORT"
    start api-out host socat "TCP-LISTEN:$API_PORT,bind=127.0.0.1,reuseaddr,fork,backlog=256" "UNIX-CONNECT:$RUN/api.sock"
}

start_containerd() {
    start containerd namespace containerd --config "$RUN/conf/containerd.toml" --log-level warn
    wait_for 60 containerd containerd_client version
}

start_node() {
    start kubelet namespace "$BIN/kubelet" --config "$RUN/conf/kubelet.yaml" --kubeconfig "$RUN/kubeconfig/kubelet" \
        --root-dir "$RUN/kubelet" --cert-dir "$RUN/kubelet/pki" --hostname-override $NODE --node-ip $NODE_IP \
        --containerd "$RUN/containerd.sock" --v=1
    start kube-proxy namespace "$BIN/kube-proxy" --config "$RUN/conf/kube-proxy.yaml"
}

load_own_images() {
    local image file
    for image in $PAUSE_IMAGE $COREDNS_IMAGE; do
        file=$(archive_name $image)
        [ "$(cat "$RUN/node-id" "$file.src")" != "$(cat "$file.loaded" 2>/dev/null)" ] || continue
        load "$file"
        cat "$RUN/node-id" "$file.src" >"$file.loaded"
    done
}

# Both want proof from this run: after down and up, etcd still tells of the last run's health.
node_is_ready() {
    local status beat
    read -r status beat <<<"$(kubectl_admin get node $NODE \
        -o 'jsonpath={range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end}')"
    [ "$status" = True ] && [[ ! "$beat" < "$(date -u -r "$RUN/pids/kubelet" +%FT%TZ)" ]]
}

dns_is_ready() {
    local pod
    pod=$(kubectl_admin -n kube-system get pod -l k8s-app=kube-dns -o 'jsonpath={.items[0].metadata.name}')
    kubectl_admin get --raw "/api/v1/namespaces/kube-system/pods/$pod:8181/proxy/ready"
}

up() {
    local begun=$SECONDS
    build
    images
    configure
    certificates
    network
    save_sysctls
    start_containerd
    timed "loading images" load_own_images
    start_control_plane
    timed "API server" wait_for 120 "the API server" kubectl_admin get --raw /readyz
    start_node
    kubectl_admin apply -f "$HERE/manifests" >/dev/null
    timed "node" wait_for 120 "the node to be Ready" node_is_ready
    volumes
    timed "DNS" wait_for 120 CoreDNS dns_is_ready
    ln -sf "$RUN/kubeconfig/admin" "$HOME_DIR/kubeconfig"
    say "up in $((SECONDS - begun)) s; KUBECONFIG=$HOME_DIR/kubeconfig"
}

down() {
    local name
    end kubelet
    end kube-proxy
    ! in_namespace true 2>/dev/null || [ ! -d "$RUN/containerd-state" ] || { start_containerd; end_containers; }
    for name in kube-scheduler kube-controller-manager api-out api-in kube-apiserver etcd containerd; do
        end $name
    done
    unmount
    if [ -e "/run/netns/$NETNS" ]; then
        for name in /run/netns/cni-*; do
            [ ! -e "$name" ] || { umount -l "$name" 2>/dev/null || true; rm -f "$name"; }
        done
        ip netns del "$NETNS"
    fi
    find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} + 2>/dev/null || true
    rm -rf "$RUN"/{cni-ipam,containerd-state,kubelet/pods,pod-logs,api.sock}
    restore_sysctls
}

# Containers outlive containerd, so they are ended through it.
end_containers() {
    local container _
    for container in $(containerd_client tasks ls -q); do
        containerd_client tasks kill -s SIGKILL -a "$container" >/dev/null 2>&1 || true
    done
    for _ in $(seq 50); do
        containerd_client tasks ls | grep -q RUNNING || break
        sleep 0.1
    done
    for container in $(containerd_client containers ls -q); do
        containerd_client tasks rm -f "$container" >/dev/null 2>&1 || true
        containerd_client containers rm "$container" >/dev/null 2>&1 || true
    done
}

# What the kubelet and containerd mounted, the deepest first; a volume may be a bind mount, so nothing is removed before.
unmount() {
    local point
    awk '{ print $5 }' /proc/self/mountinfo | { grep "^$RUN/" || true; } | sort -r | while read -r point; do
        umount -l "$point" 2>/dev/null || true
    done
    ! grep -q " $RUN/" /proc/self/mountinfo || die "something is still mounted under $RUN: nothing is removed"
}

wipe() {
    down
    rm -rf --one-file-system "$RUN"
}

status() {
    local file name id
    for file in "$RUN"/pids/*.start; do
        name=$(basename "$file" .start)
        id=$(cat "$RUN/pids/$name")
        if alive "$name"; then
            printf '%-26s id %-7s %s MiB\n' "$name" "$id" $(($(awk '/VmRSS/ { print $2 }' "/proc/$id/status") / 1024))
        else
            echo "$name: not running"
        fi
    done
    kubectl_admin get nodes -o wide
    kubectl_admin get pods --all-namespaces
}
