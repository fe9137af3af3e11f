"""Reads and changes the database file of a server that is stopped.

    python database.py FILE emails          prints a JSON array: the bytes of each email as they are kept, in latin-1
    python database.py FILE verify DOMAIN   does what POST /v1/domains/{id}/verify does once the DNS has the records
"""

import contextlib
import datetime
import json
import sqlite3
import sys

EMAIL = 3
DOMAIN = 10


def emails(database):
    kept = database.execute("SELECT body FROM message WHERE kind = ? ORDER BY key", [EMAIL])
    print(json.dumps([body.decode("latin-1") for (body,) in kept]))


def verify(database, name):
    where = "WHERE kind = ? AND name = ? AND deleted_at IS NULL"
    [(text,)] = database.execute(f"SELECT body FROM record {where}", [DOMAIN, name]).fetchall()
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    body = json.loads(text)
    # No other name will do: the field must be one that the server knows.
    assert body["verified_at"] is None, body
    body |= {"verified_at": now, "checked_at": now}
    database.execute(f"UPDATE record SET body = ?, version = version + 1 {where}", [json.dumps(body), DOMAIN, name])


def main():
    file, command, *arguments = sys.argv[1:]
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=rw", uri=True)) as database, database:
        {"emails": emails, "verify": verify}[command](database, *arguments)


main()
