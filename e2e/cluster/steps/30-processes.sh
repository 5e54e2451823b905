# Processes that go on after cluster.sh, each known by its id and its start time, so that no other is ever taken for it.

in_namespace() { nsenter --net="/run/netns/$NETNS" -- "$@"; }

# Nothing for a zombie: the first process of a container may take seconds to reap.
start_time() { awk '$3 != "Z" { print $22 }' "/proc/$1/stat" 2>/dev/null; }

alive() {
    local id
    id=$(cat "$RUN/pids/$1" 2>/dev/null) && [ -n "$id" ] && [ "$(cat "$RUN/pids/$1.start" 2>/dev/null)" = "$(start_time "$id")" ]
}

# start NAME host|namespace COMMAND...
start() {
    local name=$1 where=$2 prefix=() id
    shift 2
    ! alive "$name" || return 0
    # nsenter and not `ip netns exec`: that mounts a new /sys, which hides the cgroups.
    [ "$where" = host ] || prefix=(nsenter --net="/run/netns/$NETNS" --)
    # Whatever else is open here (a lock of the caller's, say) must not stay open for as long as the node is up.
    setsid "${prefix[@]}" "$@" >>"$RUN/logs/$name.log" 2>&1 </dev/null 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
    id=$!
    disown
    echo $id >"$RUN/pids/$name"
    start_time $id >"$RUN/pids/$name.start"
    [ -s "$RUN/pids/$name.start" ] || die "$name ended at once; see $RUN/logs/$name.log"
}

end() {
    local name=$1 id _
    if alive "$name"; then
        id=$(cat "$RUN/pids/$name")
        kill "$id" 2>/dev/null || true
        for _ in $(seq 100); do
            alive "$name" || break
            sleep 0.1
        done
        ! alive "$name" || kill -9 "$id" 2>/dev/null || true
    fi
    rm -f "$RUN/pids/$name" "$RUN/pids/$name.start"
}
