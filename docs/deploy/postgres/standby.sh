#!/usr/bin/env bash
# A standby of pg1 with the name $1: copied when it is new, then started. As root it does so as the user postgres.
set -euo pipefail
name=$1
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA"
    chown postgres "$PGDATA"
    exec gosu postgres bash "$0" "$name"
fi
chmod 0700 "$PGDATA"
if ! [ -s "$PGDATA/PG_VERSION" ]; then
    primary="host=pg1 user=$POSTGRES_USER password=$POSTGRES_PASSWORD application_name=$name"
    pg_basebackup --dbname "$primary" --pgdata "$PGDATA" --slot "$name" --write-recovery-conf --checkpoint=fast
fi
exec postgres -c config_file=/etc/restante/postgresql.conf
