# Makes the machine in the directory $1, and goes there: some programs with the libraries they are linked with, a checkout
# whose build is the binary, and PostgreSQL, which another machine would have. Started by run.sh, in its namespaces.
set -euo pipefail
root=$1 here=$(realpath "$(dirname "$0")")

# What the page may use, and what the scripts here do. A page that needs another program has to say how to install it.
programs=(
    bash cat chmod chown cp curl cut date env flock grep head install ls mkdir mv nologin rm sed setpriv sort stat tail
    touch tr uniq useradd wc
)

mount -t tmpfs -o mode=0755,size=2g none "$root"
mkdir -p "$root"/{dev/shm,etc/default,etc/systemd/system,proc,root,src/restante/{docs,target/release},run,tmp}
mkdir -p "$root"/usr/{bin,lib,lib32,lib64,libx32,local/bin,sbin} "$root"/var/{lib,log}
chmod 0700 "$root/root"
chmod 1777 "$root"/{tmp,dev/shm}
# As on this machine, so that each library is where its program looks.
for directory in bin lib lib32 lib64 libx32 sbin; do
    if [ -L "/$directory" ]; then ln -s "usr/$directory" "$root/$directory"; else mkdir -p "$root/$directory"; fi
done

# Copies what programs are linked with.
add_libraries_of() {
    ldd "$@" | grep -o '/[^ :]*\.so[^ :]*' | sort -u | xargs cp -Lu --parents -t "$root"
}
# Shows a file or directory of this machine, for reading, at $2 or at the same place.
show() {
    local there=$root${2:-$1}
    if [ -d "$1" ]; then mkdir -p "$there"; else touch "$there"; fi
    mount --bind "$1" "$there"
    mount -o remount,bind,ro "$there"
}

paths=()
for program in "${programs[@]}"; do
    paths+=("$(type -P "$program")") || { echo "missing: $program" >&2; exit 1; }
done
cp -L --parents "${paths[@]}" "$root"
add_libraries_of "${paths[@]}" "$BINARY" "$POSTGRES"/{initdb,postgres,pg_ctl,psql}
[ -e "$root/bin/bash" ] || cp "$root/usr/bin/bash" "$root/bin"
ln -sf bash "$root/bin/sh"

show "$BINARY" /src/restante/target/release/restante
cp -r docs/deploy "$root/src/restante/docs"
show "$POSTGRES"
show "$("$POSTGRES/pg_config" --pkglibdir)"
show "$("$POSTGRES/pg_config" --sharedir)"
show "$here" /deploy
cp "$here"/{systemctl,journalctl} "$root/usr/bin"

mount -t proc none "$root/proc"
for device in null zero random urandom; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"

cd "$root/etc"
cp /etc/login.defs .
echo 'root:x:0:0::/root:/bin/bash
postgres:x:70:70::/var/lib/postgresql:/bin/sh' >passwd
echo 'root:x:0:
postgres:x:70:' >group
(umask 077 && echo 'root:*:::::::' >shadow && echo 'root:*::' >gshadow)
echo 'passwd: files
group: files
hosts: files' >nsswitch.conf
echo '127.0.0.1 localhost
127.0.1.1 pg1
127.0.1.2 pg2
127.0.1.3 pg3' >hosts
echo 'nameserver 127.0.0.1' >resolv.conf

# SIOCSIFFLAGS: up and running.
python3 -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8914, struct.pack("16sH14x", b"lo", 0x41))'

exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C POSTGRES="$POSTGRES" \
    "$(type -P chroot)" "$root" /bin/bash /deploy/follow.sh
