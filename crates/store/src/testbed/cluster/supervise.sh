# Runs a server for as long as somebody holds a shared lock on the file `users` of the directory this is started in.
# Then it ends the server and removes what that kept. The lock goes with the process that holds it, however that dies.
#
# usage: sh supervise.sh <seconds to wait for a next user> <what to remove> <command of the server>...
set -u
linger=$1 leftovers=$2
shift 2
exec 9<users

# Whoever kills this shell ends the server too.
setpriv --pdeathsig QUIT "$@" 9<&- &
server=$!
echo $server >server

# Blocks until nobody uses the server. New users do not wait for this lock: it is held for a moment only, or to the end.
while flock 9; do
    [ "$linger" = 0 ] && break
    flock -u 9
    sleep "$linger"
    flock -n 9 && break
done

# A server that ended by itself has been replaced by another user, under a supervisor of its own.
[ "$(cat server)" = $server ] || exit 0

# A test may have killed the server; its number may be another process's by now.
if grep -q "^PPid:.$$\$" /proc/$server/status; then
    kill -QUIT $server
    # It may have been stopped by a test.
    kill -CONT $server
fi
wait $server

# A server that was killed leaves the System V shared memory by which it locks its directory.
if [ -e data/postmaster.pid ]; then
    ipcrm -m "$(sed -n '7s/.* //p' data/postmaster.pid)"
fi

# Removing what many tests left takes minutes on a busy disk. Nobody is to wait for it who only wants another server.
gone=$leftovers.$$
mv "$leftovers" "$gone" 2>/dev/null || gone=$leftovers
[ "$gone" = "$leftovers" ] || exec 9<&-
rm -rf "$gone"
