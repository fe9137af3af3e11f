#!/usr/bin/env bash
# Once, when the primary is made: standbys may copy it. They use the password of the one user.
set -euo pipefail
echo 'host replication all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
for standby in pg2 pg3; do
    psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -c "SELECT pg_create_physical_replication_slot('$standby')" postgres
done
# From its first real start on a COMMIT is on the disk of whichever standby answers first before it is acknowledged.
# Copies have the line too, and use it when they are promoted.
psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -c "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (pg1, pg2, pg3)'" \
    postgres
