# Certificates and kubeconfigs of one cluster, each made once.

PKI=$RUN/pki

key() { [ -s "$PKI/$1.key" ] || openssl ecparam -name prime256v1 -genkey -noout -out "$PKI/$1.key"; }

authority() { # NAME COMMON_NAME
    [ ! -s "$PKI/$1.crt" ] || return 0
    key "$1"
    openssl req -x509 -new -key "$PKI/$1.key" -days 3650 -subj "/CN=$2" -out "$PKI/$1.crt" \
        -addext 'basicConstraints=critical,CA:TRUE' -addext 'keyUsage=critical,keyCertSign,digitalSignature' 2>/dev/null
}

certificate() { # NAME SUBJECT [ALTERNATIVE_NAMES] [AUTHORITY]
    local name=$1 subject=$2 alternatives=${3:-} signer=${4:-ca}
    [ ! -s "$PKI/$name.crt" ] || return 0
    key "$name"
    openssl req -new -key "$PKI/$name.key" -subj "$subject" -out "$PKI/$name.csr" 2>/dev/null
    openssl x509 -req -in "$PKI/$name.csr" -CA "$PKI/$signer.crt" -CAkey "$PKI/$signer.key" -CAcreateserial -days 3650 \
        -out "$PKI/$name.crt" 2>/dev/null -extfile <(
            echo "keyUsage=critical,digitalSignature"
            echo "extendedKeyUsage=serverAuth,clientAuth"
            [ -z "$alternatives" ] || echo "subjectAltName=$alternatives"
        )
}

kubeconfig() { # NAME: of a certificate
    local file=$RUN/kubeconfig/$1
    [ ! -s "$file" ] || return 0
    cat >"$file" <<YAML
apiVersion: v1
kind: Config
current-context: kube
contexts: [{name: kube, context: {cluster: kube, user: $1}}]
clusters: [{name: kube, cluster: {server: "https://127.0.0.1:$API_PORT", certificate-authority-data: $(base64 -w0 "$PKI/ca.crt")}}]
users: [{name: $1, user: {client-certificate-data: $(base64 -w0 "$PKI/$1.crt"), client-key-data: $(base64 -w0 "$PKI/$1.key")}}]
YAML
    chmod 600 "$file"
}

certificates() {
    local kubernetes=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local name
    mkdir -p "$PKI" "$RUN/kubeconfig"
    chmod 700 "$PKI"
    authority ca kube-ca
    authority front-ca kube-front-proxy-ca
    certificate apiserver /CN=kube-apiserver "$kubernetes,DNS:localhost,IP:127.0.0.1,IP:$API_SERVICE_IP,IP:$NODE_IP"
    certificate apiserver-kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client
    certificate front-proxy-client /CN=front-proxy-client "" front-ca
    certificate admin /O=system:masters/CN=admin
    certificate controller-manager /CN=system:kube-controller-manager
    certificate scheduler /CN=system:kube-scheduler
    certificate proxy /CN=system:kube-proxy
    certificate kubelet "/O=system:nodes/CN=system:node:$NODE" "DNS:$NODE,IP:$NODE_IP,IP:127.0.0.1"
    if [ ! -s "$PKI/sa.pub" ]; then
        openssl genrsa -out "$PKI/sa.key" 2048 2>/dev/null
        openssl rsa -in "$PKI/sa.key" -pubout -out "$PKI/sa.pub" 2>/dev/null
    fi
    for name in admin controller-manager scheduler proxy kubelet; do
        kubeconfig $name
    done
}
