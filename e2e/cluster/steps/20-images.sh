# Images, built by buildah without a registry: the sandbox's pause, CoreDNS, a stand-in for Docker Hub's Python, and ours.

export CONTAINERS_STORAGE_CONF=$CACHE/storage.conf

configure_buildah() {
    printf '[storage]\ndriver = "overlay"\ngraphroot = "%s"\nrunroot = "%s"\n' "$CACHE/buildah" "$CACHE/buildah-run" \
        | put "$CONTAINERS_STORAGE_CONF"
    echo '{"default":[{"type":"insecureAcceptAnything"}]}' | put "$CACHE/policy.json"
}

# Chroot isolation: no cgroups, no network namespace. The machine's certificates are there while RUN lines run, so that pip
# reaches an index behind a proxy of one's own, and are not kept in the image.
bud() {
    TMPDIR=$CACHE buildah bud --quiet --format docker --isolation chroot --network host --pull-never --layers \
        --signature-policy "$CACHE/policy.json" --volume "$CA_BUNDLE:$CA_BUNDLE:ro" "$@"
}

# archive NAME:TAG FILE: as a docker archive, which keeps the name (an OCI archive loses it).
archive() {
    rm -f "$2.new"
    docker_archive "$1" "$2.new" >/dev/null
    mv "$2.new" "$2"
}

docker_archive() { TMPDIR=$CACHE buildah push --quiet --signature-policy "$CACHE/policy.json" "$1" "docker-archive:$2:$1"; }

archive_name() { echo "$CACHE/img/$(echo "$1" | tr '/:' '__').tar"; }

# make_image NAME:TAG MARK COMMAND...: run the command, which builds the image, unless its archive has this mark already.
# (As it is run before `||`, it goes on after an error unless it says otherwise.)
make_image() {
    local image=$1 mark=$2 file
    shift 2
    file=$(archive_name "$image")
    [ ! -s "$file" ] || [ "$(cat "$file.src" 2>/dev/null)" != "$mark" ] || return 0
    "$@" >"$file.log" 2>&1 || { tail -20 "$file.log" >&2; die "image $image could not be built"; }
    archive "$image" "$file"
    echo "$mark" >"$file.src"
}

mark_of() { cat "$@" | sha256sum | cut -c1-16; }

make_pause() {
    gcc -Os -static -s -o "$CACHE/pause/pause" "$HERE/images/pause/pause.c" || return 1
    cp "$HERE/images/pause/Dockerfile" "$CACHE/pause/"
    bud -t $PAUSE_IMAGE "$CACHE/pause"
}

make_coredns() {
    cp "$BIN/coredns" "$HERE/images/coredns/Dockerfile" "$CACHE/coredns/"
    bud -t $COREDNS_IMAGE "$CACHE/coredns"
}

# The mirror that apt uses here.
debian_mirror() { apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | head -1; }

make_python() {
    local root=$CACHE/rootfs
    if [ ! -e "$root.done" ]; then
        rm -rf "$root"
        debootstrap --variant=minbase --include=python3,python3-pip,python3-venv,ca-certificates bookworm "$root" "$(debian_mirror)" || return 1
        # Docker Hub's image has it so.
        rm -f "$root"/usr/lib/python3*/EXTERNALLY-MANAGED
        ln -sf python3 "$root/usr/bin/python"
        touch "$root.done"
    fi
    tar -C "$root" --numeric-owner -cf "$CACHE/python/rootfs.tar" \
        --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' \
        --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' . || return 1
    cp "$HERE/images/python/Dockerfile" "$CACHE/python/"
    bud -t $PYTHON_IMAGE "$CACHE/python" || return 1
    rm -f "$CACHE/python/rootfs.tar"
}

images() {
    mkdir -p "$CACHE"/{pause,coredns,python,img}
    configure_buildah
    timed "image pause" make_image $PAUSE_IMAGE "$(mark_of "$HERE"/images/pause/*)" make_pause
    timed "image coredns" make_image $COREDNS_IMAGE "$(mark_of "$BIN/coredns.src" "$HERE/images/coredns/Dockerfile")" make_coredns
    timed "image python" make_image $PYTHON_IMAGE "$(mark_of "$HERE/images/python/Dockerfile")" make_python
}

# build_only NAME:TAG DIRECTORY [OPTION...]: as buildah does; prints the image's id.
build_only() {
    local image=$1 directory=$2
    shift 2
    configure_buildah
    [ -z "${PIP_INDEX_URL:-}" ] || set -- --build-arg "PIP_INDEX_URL=$PIP_INDEX_URL" "$@"
    bud -t "$image" "$@" "$directory"
}

# build_and_load NAME:TAG DIRECTORY [OPTION...]
build_and_load() {
    build_only "$@" >/dev/null
    load_built "$1"
}

# load_built NAME:TAG: load an image that was built.
load_built() {
    local image=$1 file
    file=$(archive_name "$image")
    buildah inspect --type image --format '{{.FromImageID}}' "$image" >"$file.id"
    # Nothing changed: nothing to load. (A wiped node forgets its images, and has another mark.)
    [ "$(cat "$file.id" "$RUN/node-id" 2>/dev/null)" != "$(cat "$file.loaded" 2>/dev/null)" ] || return 0
    # Through a pipe, and without the layers that are there: all images of ours share more than a gigabyte.
    docker_archive "$image" /dev/stdout \
        | python3 "$HERE/images/new_layers.py" <(containerd_client content ls --quiet) \
        | load -
    cat "$file.id" "$RUN/node-id" >"$file.loaded"
}

containerd_client() { ctr --address "$RUN/containerd.sock" --namespace k8s.io "$@"; }
load() { containerd_client images import "$1" >/dev/null; }

remove() {
    # At once, so that no layer goes away between the look at what is there and the next load.
    containerd_client images rm --sync "${1:?which image?}" >/dev/null
    rm -f "$(archive_name "$1").loaded"
}
