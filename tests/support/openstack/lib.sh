# Shared settings, sourced by setup.sh, start.sh, stop.sh and hold.sh.
# Everything listens on 127.0.0.1 only. First argument of each script: the root directory.
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# What is installed depends on these files alone, so the folder carries their hash and an old one is never reused.
OPENSTACK_ENV_VERSION="2026.2-$(cat "$HERE/constraints.txt" "$HERE/setup.sh" "$HERE/bootstrap.py" "$HERE"/plugins/openstack_env/*.py | sha256sum | cut -c1-12)"
ROOT="${1:-${OPENSTACK_ENV_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/capo-rs/openstack-$OPENSTACK_ENV_VERSION}}"
ROOT="$(mkdir -p "$ROOT" && cd "$ROOT" && pwd)"
IP=127.0.0.1
OFF="${OPENSTACK_ENV_PORT_OFFSET:-0}"            # added to every port, for a second copy or a port clash
P_KEYSTONE=$((5000+OFF)); P_GLANCE=$((9292+OFF)); P_PLACEMENT=$((8778+OFF)); P_NOVA=$((8774+OFF))
P_NEUTRON=$((9696+OFF)); P_OCTAVIA=$((9876+OFF)); P_CINDER=$((8776+OFF))
P_DB=$((13306+OFF)); P_AMQP=$((15672+OFF)); P_EPMD=$((14369+OFF)); P_DIST=$((15673+OFF)); P_HM=$((15555+OFF))
P_REDIS=$((16379+OFF))
PW="${OPENSTACK_ENV_PASSWORD:-openstack-env}"           # one throw-away password for all of it
REGION=RegionOne
COMPUTE_HOST=openstack-env-compute1
VENV="$ROOT/venv"; ETC="$ROOT/etc"; LOG="$ROOT/log"; RUN="$ROOT/run"; DATA="$ROOT/data"
WITH_CINDER="${OPENSTACK_ENV_WITH_CINDER:-1}"
mkdir -p "$ETC" "$LOG" "$RUN" "$DATA"
say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*"; }
die() { say "FAILED: $*" >&2; exit 1; }
alive() { [ -s "$RUN/$1.pid" ] && kill -0 "$(cat "$RUN/$1.pid")" 2>/dev/null; }
# launch NAME COMMAND...: own session (so that stop.sh can end the whole group by its id)
launch() {
  local name=$1; shift
  if alive "$name"; then say "$name already running"; return 0; fi
  # In a folder that stays: a service outlives the checkout it was started from.
  (cd "$RUN" && exec setsid nohup "$@") >>"$LOG/$name.log" 2>&1 </dev/null &
  echo $! >"$RUN/$name.pid"
}
halt() {
  local name=$1 wait_s=${2:-20} pid
  [ -s "$RUN/$name.pid" ] || return 0
  pid=$(cat "$RUN/$name.pid")
  if kill -0 "$pid" 2>/dev/null; then
    kill -TERM "$pid" 2>/dev/null
    for _ in $(seq $((wait_s*10))); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -0 "$pid" 2>/dev/null && { say "$name did not stop, killing its process group"; kill -KILL -- "-$pid" 2>/dev/null; }
  fi
  kill -KILL -- "-$pid" 2>/dev/null       # left-over children of that group, if any
  rm -f "$RUN/$name.pid"
}
wait_tcp() { # port seconds
  for _ in $(seq $(( $2 * 5 ))); do (exec 3<>"/dev/tcp/$IP/$1") 2>/dev/null && return 0; sleep 0.2; done; return 1
}
wait_http() { # url seconds name
  for _ in $(seq $(( $2 * 5 ))); do
    case "$(curl -s -o /dev/null -m 30 -w '%{http_code}' "$1")" in 2*|3*|401) return 0;; esac
    alive "$3" || { tail -n 30 "$LOG/$3.log" >&2; return 1; }
    sleep 0.2
  done; return 1
}
sql() { "$(command -v mariadb || command -v mysql)" --no-defaults -S "$RUN/mysql.sock" -uroot "$@"; }
