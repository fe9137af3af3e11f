#!/usr/bin/env bash
# Follows docs/deploy/README.md from top to bottom, on a machine that has nothing yet:
#
#   tests/deploy/run.sh target/debug/restante
#
# The machine is a directory in memory, in namespaces of its own: no process, port, mount or file of it is seen outside,
# and all of it is gone with the last process. Needs root, or user namespaces; no network.
set -euo pipefail

[ $# = 1 ] || { echo "usage: tests/deploy/run.sh BINARY" >&2; exit 2; }
binary=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
cd "$here/../.."
deploy=docs/deploy page=docs/deploy/README.md
PATH=$PATH:/usr/sbin:/sbin
started=$SECONDS

fail() { printf '%s\n' "$@" >&2; exit 1; }
missing() { fail "missing: $1" "hint: $2"; }
has() { command -v "$1" >/dev/null || missing "$1" "apt-get install $2"; }

[ -x "$binary" ] || missing "$binary" "cargo build"
has unshare util-linux
has setpriv util-linux
has python3 python3
has curl curl
has useradd passwd
has promtool prometheus
has haproxy haproxy
has systemd-analyze systemd

# Where PostgreSQL's programs are: in the PATH, where Debian puts them, or where it says itself.
postgres_programs() {
    local found
    if found=$(command -v initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' | sort -V | tail -n 1); then
        dirname "$(realpath "$found")"
    else
        pg_config --bindir 2>/dev/null || missing PostgreSQL "apt-get install postgresql"
    fi
}
POSTGRES=$(postgres_programs)

. "$here/page.sh"
read_page "$page"
[ ${#blocks[@]} -gt 10 ] || fail "$page has next to no blocks"

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir "$home/root"

# What is no command is a file or a value. Each has somebody who reads it.
for block in "${blocks[@]}"; do
    case "${language[$block]} in ${heading[$block]}" in
    "sh in "*) ;;
    "yaml in Watching it")
        printf %s "${text[$block]}" >"$home/prometheus.yml"
        cp "$deploy/alerts.yml" "$home"
        promtool check config "$home/prometheus.yml" >"$home/said" 2>&1 ||
            fail "$page:$block: Prometheus does not take it" "$(cat "$home/said")"
        ;;
    "ini in Nothing acknowledged may be lost: synchronous standbys") ;; # follow.sh gives it to PostgreSQL
    "text in URL")
        grep -qxF "#RESTANTE_DATABASE_URL=${text[$block]%$'\n'}" "$deploy/restante.env" ||
            fail "$page:$block: not the URL in restante.env"
        ;;
    *) fail "$page:$block: nobody checks a block of ${language[$block]} under \"${heading[$block]}\"" ;;
    esac
done

haproxy -c -f "$deploy/haproxy.cfg" >"$home/said" 2>&1 || fail "haproxy does not take haproxy.cfg" "$(cat "$home/said")"

# It does not fail on keys that it does not know, but says so.
sed "s#^ExecStart=/usr/local/bin/restante#ExecStart=$binary#" "$deploy/restante.service" >"$home/restante.service"
systemd-analyze verify --man=no --recursive-errors=no "$home/restante.service" >"$home/said" 2>&1 || true
! grep -F restante.service "$home/said" >&2 || fail "systemd does not take restante.service"

# What stands in restante.env for several nodes is not in use here, so at least there are such settings.
for setting in $(sed -n 's/^#\(RESTANTE_[A-Z_]*\)=.*/\1/p' "$deploy/restante.env"); do
    grep -qF "\`$setting\`" docs/configuration.md || fail "restante.env: there is no setting $setting"
done

# Root needs no user namespace. Others need one with many users in it: the server's, PostgreSQL's, and root.
namespaces=(--mount --pid --net --ipc --uts --fork --kill-child)
if [ "$(id -u)" != 0 ]; then
    has newuidmap uidmap
    namespaces=(--user --map-root-user --map-auto "${namespaces[@]}")
    unshare "${namespaces[@]}" true || missing "user namespaces with a range of users" \
        "run it as root, or: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $(id -un)"
fi
unshare "${namespaces[@]}" true || missing "namespaces" "in a container, run it with --privileged"

export POSTGRES BINARY=$binary
timeout --foreground --kill-after 5 120 unshare "${namespaces[@]}" bash "$here/machine.sh" "$home/root" ||
    fail "$page cannot be followed, or not within 120 s"
echo "in $((SECONDS - started)) s"
