# Follows the page, on the machine that machine.sh has made, and judges by what its blocks printed. It is process 1: when
# it ends, everything ends.
set -euo pipefail
cd /src/restante
page=docs/deploy/README.md
. /deploy/page.sh
read_page $page

fail() { printf '%s\n' "$@" >&2; exit 1; }
reached() { printf 'reached: %s\n' "$*"; }
as_postgres() { (cd / && setpriv --reuid postgres --regid postgres --clear-groups "$@"); }
# Of the primary: the user $1 asks $2, in the database $3.
ask() { PGPASSWORD=password "$POSTGRES/psql" -X -Atc "$2" "host=pg2 user=$1 dbname=${3-restante}"; }

# The database of "From one machine to several": pg1 and pg3 are down, pg2 is the primary. It has the settings of
# docs/deploy, but for what takes memory, and for standbys that are not there.
start_postgres() {
    local cluster=/var/lib/postgresql
    install -d -o postgres -g postgres -m 0700 $cluster &&
        cp -r docs/deploy/postgres /etc/postgresql &&
        echo password >/run/password &&
        as_postgres "$POSTGRES/initdb" --pgdata $cluster --username postgres --auth scram-sha-256 \
            --pwfile /run/password --encoding UTF8 --no-sync &&
        as_postgres "$POSTGRES/pg_ctl" start --wait --pgdata $cluster -o "-c config_file=/etc/postgresql/postgresql.conf \
            -c listen_addresses=pg2 -c unix_socket_directories='' -c shared_buffers=64MB -c jit=off" &&
        ask postgres "CREATE ROLE restante LOGIN PASSWORD 'password'" postgres &&
        ask postgres "CREATE DATABASE restante OWNER restante" postgres
}

# Settings that the page shows and nobody uses here.
check_settings() {
    local block said
    for block in "${blocks[@]}"; do
        [ "${language[$block]}" = ini ] || continue
        printf %s "${text[$block]}" >/run/settings.conf
        said=$(as_postgres "$POSTGRES/postgres" -D /var/lib/postgresql -c config_file=/run/settings.conf \
            -C synchronous_standby_names 2>&1) || fail "$page:$block: PostgreSQL does not take it" "$said"
        [[ $said == ANY* ]] || fail "$page:$block: synchronous_standby_names is: $said"
        reached "PostgreSQL takes the settings of line $block"
    done
}

# Runs the blocks. What each prints goes into a file of its own, by steps.sh.
follow_page() {
    local block
    mkdir /run/printed
    printf '%s\n' "${script[@]}" >/run/README.md
    if ! BASH_ENV=/deploy/steps.sh bash /run/README.md </dev/null; then
        block=$(cat /run/block)
        fail "" "$page:$block: the block under \"${heading[$block]}\" fails:" "" "${text[$block]}" \
            "It printed:" "" "$(cat "/run/printed/$block")" "" "The server's journal:" "" \
            "$(tail -n 20 /var/log/restante 2>&1)"
    fi
    for block in "${blocks[@]}"; do
        [ "${language[$block]}" != sh ] || grep -qx "$block" /run/ended ||
            fail "$page:$block: the block under \"${heading[$block]}\" was not run to its end"
    done
    reached "$(wc -l </run/ended) blocks run"
}

# What the blocks under a heading printed.
printed_under() {
    local block
    for block in "${blocks[@]}"; do
        [ "${language[$block]} ${heading[$block]}" != "sh $1" ] || cat "/run/printed/$block"
    done
}

# Each metric of the table is on the page's scrape or on that of the node, for some are of one database only; and each
# that is there is in the table.
judge_metrics() {
    local odd
    printed_under "Starting it" >/run/scrape
    [ "$(grep -c '^restante_' /run/scrape)" -gt 0 ] || fail "no metrics were scraped"
    curl -fsS http://127.0.0.1:8420/metrics >/run/scrape-of-node
    sed -n 's/^# TYPE \(restante_[a-z_]*\) .*/\1/p' /run/scrape /run/scrape-of-node | sort -u >/run/scraped
    sed -n 's/^| `\(restante_[a-z_]*\)` .*/\1/p' $page | sort >/run/table
    odd=$(sort /run/scraped /run/table | uniq -u)
    [ -z "$odd" ] || fail "in the table and on no scrape, or the other way round: $odd"
    reached "$(grep -c '^# TYPE restante_' /run/scrape) metrics scraped," \
        "and with the node's all $(wc -l </run/table) of the table"
}

judge_message() {
    local section
    for section in "Putting one back" "From one machine to several"; do
        printed_under "$section" | grep -qF '{"order":1042}' ||
            fail "\"$section\" does not end with the message:" "$(printed_under "$section")"
    done
    reached "backup restored, with the message in it"
    reached "migrated to PostgreSQL, with the message"
}

# The server of the last block is a node now.
judge_node() {
    local status user nodes query queries
    status=$(curl -sS -o /dev/null -w '%{http_code}' http://127.0.0.1:8420/readyz)
    [ "$status" = 200 ] || fail "/readyz says $status"
    user=$(stat -c %U "/proc/$(cat /run/restante.pid)")
    [ "$user" = restante ] || fail "the server runs as $user"
    reached "readyz $status, as the user $user"
    nodes=$(ask postgres "SELECT count(*) FROM node")
    [ "$nodes" = 1 ] || fail "nodes on PostgreSQL: $nodes"
    mapfile -t queries < <(grep -o '`SELECT [^`]*`' $page | tr -d '`')
    [ ${#queries[@]} -gt 0 ] || fail "$page asks the database for nothing"
    for query in "${queries[@]}"; do
        ask restante "$query" >/dev/null || fail "PostgreSQL does not take: $query"
    done
    reached "${#queries[@]} queries of the page answered by PostgreSQL"
}

start_postgres >/run/postgres 2>&1 || fail "PostgreSQL does not start:" "$(cat /run/postgres)"
check_settings
follow_page
judge_message
judge_node
judge_metrics
