#!/usr/bin/env bash
# What one delivery costs the server, in instructions, allocations, copies and system calls.
#
# usage: crates/bench/cost.sh [DESTINATIONS [REQUESTS]]
#
# With RESTANTE_DATABASE_URL and RESTANTE_SECRET_KEY set it is a node of that PostgreSQL, without the database's own part.
#
# The release binary serves under callgrind, then under strace: counts hardly depend on what else the machine does, and
# have nothing to do with seconds. Needs valgrind, strace and python3; builds without link-time optimisation into
# target/cost, for inlining across crates would hide what belongs to whom.
set -euo pipefail
cd "$(dirname "$0")/../.."
destinations=${1:-1} requests=${2:-2000}
for program in valgrind strace python3 curl; do
    command -v "$program" >/dev/null || { echo "missing: $program"; echo "hint: apt-get install $program"; exit 1; } >&2
done

export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
export CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_PROFILE_RELEASE_STRIP=none
# Under valgrind there is no vDSO, in which one of the libraries looks for clocks by itself.
export RUSTFLAGS="${RUSTFLAGS:-} --cfg=rustix_use_libc"
target=${COST_TARGET:-target/cost}
cargo build --quiet --release --target-dir "$target" -p restante -p restante-bench
restante=$PWD/$target/release/restante bench=$PWD/$target/release/restante-bench

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
key=rst_live_0123456789abcdefghjkmnpqrstvwxyz
api() { curl -sf -H "authorization: Bearer $key" -H 'content-type: application/json' "$@"; }
field() { python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"; }

# Starts the receiver and, with what is given, the server; makes a source with its destinations; warms them up.
begin() {
    "$bench" sink >"$work/sink.json" &
    until [ -s "$work/sink.json" ]; do sleep 0.1; done
    sink=$(field listening <"$work/sink.json")
    address=127.0.0.1:$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    RESTANTE_LISTEN=$address RESTANTE_DATA=$work/data RESTANTE_ADMIN_KEY=$key "$@" "$restante" serve --dev >"$work/log" 2>&1 &
    server=$!
    until curl -sf "http://$address/readyz" >/dev/null; do kill -0 $server; sleep 0.2; done
    made=$(api -d "{\"name\":\"cost $RANDOM\"}" "http://$address/v1/sources")
    for k in $(seq "$destinations"); do
        api -d "{\"kind\":\"http\",\"url\":\"http://$sink/d/$k\",\"idempotency_header\":true}" \
            "http://$address/v1/sources/$(field id <<<"$made")/destinations" >/dev/null
    done
    url=http://$address/in/$(field token <<<"$made")
    sent=0
    send 500
}

# Sends requests, and waits until all have arrived.
send() {
    "$bench" load "$url" --connections 64 --body-bytes 512 --count "$1" >/dev/null
    sent=$((sent + $1))
    for _ in $(seq 600); do
        [ "$(curl -sf "http://$sink/__stats" | field distinct)" -ge $((sent * destinations)) ] && sleep 1 && return
        sleep 0.3
    done
    echo "not all arrived" >&2
    exit 1
}

end() {
    kill $server
    wait $server || true
    kill %1 2>/dev/null || true
    wait || true
    rm -rf "$work/data" "$work/sink.json"
}

begin valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file="$work/callgrind"
callgrind_control -i on $server >/dev/null
send "$requests"
callgrind_control -i off $server >/dev/null
end
begin env
strace -qq -f -c -p $server -o "$work/calls" &
tracer=$!
sleep 1
send "$requests"
kill -INT $tracer
wait $tracer || true
end

callgrind_annotate --auto=no --inclusive=yes --threshold=100 "$work/callgrind" >"$work/inclusive"
callgrind_annotate --auto=no --inclusive=yes --threshold=100 --tree=caller "$work/callgrind" >"$work/callers"
python3 crates/bench/cost.py "$work" $((requests * destinations)) "$requests"
