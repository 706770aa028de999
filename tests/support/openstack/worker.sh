#!/usr/bin/env bash
# The death of Octavia's worker, and the next one. What it was at is PENDING for ever: the message was acknowledged.
#   worker.sh ROOT kill     KILL, in the middle of whatever it does
#   worker.sh ROOT start    starts it (again)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OPENSTACK_ENV_RUN="$RUN" HOME="$DATA/home" PYTHONWARNINGS=ignore PATH="$VENV/bin:$PATH"
unset ${!OS_*}
case "${2:-}" in
  kill) pid=$(cat "$RUN/octavia-worker.pid"); kill -KILL -- "-$pid"; rm -f "$RUN/octavia-worker.pid";;
  start) launch octavia-worker octavia-worker --config-file "$ETC/octavia/octavia.conf";;
  *) sed -n '2,4p' "$0"; exit 2;;
esac
