# Goes before the page, in the Bash that runs it: what it prints goes into a file for each block, and the first command
# that fails ends it. A reader sees that it failed.
unset BASH_ENV
set -eEuo pipefail
exec 3>&1
trap 'echo "README.md:$LINENO: this failed: $BASH_COMMAND" >&2' ERR

block() {
    echo "line $1: $2" >&3
    echo "$1" >/run/block
    exec >"/run/printed/$1" 2>&1
}
end() {
    cat /run/block >>/run/ended
}
