#!/usr/bin/env bash
# The death of Octavia's worker, and the next one. Without a jobboard, what it was at is PENDING for ever: the message was
# acknowledged. With one, the next worker resumes it when the claim of the dead one has expired.
#   worker.sh ROOT kill      KILL, in the middle of whatever it does
#   worker.sh ROOT start     starts the next one
#   worker.sh ROOT jobboard  gives Octavia's only worker, and those that are started later, a jobboard in Redis
#   worker.sh ROOT plain     takes the jobboard away again, with the jobs on it
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OPENSTACK_ENV_RUN="$RUN" HOME="$DATA/home" PYTHONWARNINGS=ignore PATH="$VENV/bin:$PATH"
unset ${!OS_*}
HAS_JOBBOARD="$RUN/octavia-jobboard"      # this file is there as long as workers have a jobboard
settings() { echo "--config-file $ETC/octavia/octavia.conf"; [ ! -e "$HAS_JOBBOARD" ] || echo "--config-file $ETC/octavia/jobboard.conf"; }
kill_now() { pid=$(cat "$RUN/$1.pid"); kill -KILL -- "-$pid"; rm -f "$RUN/$1.pid"; }
start_worker() { launch octavia-worker octavia-worker $(settings); }
case "${2:-}" in
  kill) kill_now octavia-worker;;
  start) start_worker;;
  jobboard)
    touch "$HAS_JOBBOARD"
    sql -e "CREATE DATABASE IF NOT EXISTS octavia_persistence CHARACTER SET utf8mb3;
            GRANT ALL ON octavia_persistence.* TO 'openstack'@'%' IDENTIFIED BY '$PW';"
    octavia-db-manage $(settings) upgrade_persistence >>"$LOG/dbsync-octavia.log" 2>&1 || { tail -n 20 "$LOG/dbsync-octavia.log"; die upgrade_persistence; }
    launch redis redis-server --bind $IP --port $P_REDIS --save '' --appendonly no
    wait_tcp $P_REDIS 10 || { tail "$LOG/redis.log"; die redis; }
    ! alive octavia-worker || kill_now octavia-worker
    start_worker;;
  plain)
    [ -e "$HAS_JOBBOARD" ] || exit 0
    for n in octavia-worker redis; do ! alive $n || kill_now $n; done
    rm "$HAS_JOBBOARD"
    start_worker;;
  *) sed -n '2,7p' "$0"; exit 2;;
esac
