#!/usr/bin/env bash
# Runs what needs a real OpenStack: installs one and starts it empty where none runs, and stops it again if this started it.
# Usage: tests/openstack/run.sh [TEST NAME PART...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/support/openstack/lib.sh "${OPENSTACK_ENV_ROOT:-}"
export OPENSTACK_ENV_ROOT="$ROOT" OPENSTACK_ENV_PASSWORD="$PW" OPENSTACK_ENV_AUTH_URL="http://$IP:$P_KEYSTONE/v3"
started=
if ! alive keystone; then
  started=yes
  # What an interrupted run left behind would use up the project's quota: begin with an empty cloud.
  tests/support/openstack/stop.sh "$ROOT" >>"$LOG/stop.log" 2>&1
  rm -rf "$DATA" && mkdir "$DATA"
  tests/support/openstack/setup.sh "$ROOT"
fi
finish() { # quietly: the tests' own summary is the last word
  tests/support/openstack/hold.sh "$ROOT" clear || true
  rm -f "$RUN/octavia-delay" "$RUN/octavia-fail"
  tests/support/openstack/worker.sh "$ROOT" plain || true
  [ -z "$started" ] || tests/support/openstack/stop.sh "$ROOT" >>"$LOG/stop.log" 2>&1
}
trap finish EXIT
tests/support/openstack/start.sh "$ROOT"
# The ordinary command line client is no judge of subtleties, but one who did not write the fake cloud.
"${CARGO:-cargo}" build --quiet --locked -p fake-cloud
tests/fake_cloud/openstackclient.sh "${CARGO_TARGET_DIR:-target}/debug/fake-cloud" "$VENV/bin/openstack"
# One at a time: pushes are slowed down and failed for the whole cloud.
"${CARGO:-cargo}" test --locked --test openstack -- --test-threads=1 "$@"
