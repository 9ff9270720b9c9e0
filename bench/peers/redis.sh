# redis.sh version | serve ARGUMENTS...: a server of Redis with these arguments. It ends with its input.
set -e

if [ "$1" = version ]; then
    command -v redis-server >/dev/null || {
        echo 'redis-server is not installed: scripts/setup --with-peers' >&2
        exit 1
    }
    redis-server --version | sed 's/.* v=\([^ ]*\).*/\1/'
    exit
fi
shift
redis-server "$@" >/dev/null </dev/null &
server=$!
# There is nothing to save.
trap 'kill -9 "$server" 2>/dev/null' EXIT
cat >/dev/null
