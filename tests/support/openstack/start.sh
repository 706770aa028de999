#!/usr/bin/env bash
# Starts everything under ROOT (creating databases and base objects the first time). Usage: start.sh [ROOT]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
T0=$(date +%s)
[ -x "$VENV/bin/uwsgi" ] || die "run setup.sh first"
unset ${!OS_*}
export OPENSTACK_ENV_RUN="$RUN" HOME="$DATA/home" PYTHONWARNINGS=ignore PATH="$VENV/bin:$PATH"
for p in $P_KEYSTONE $P_GLANCE $P_NOVA $P_NEUTRON $P_OCTAVIA $P_DB $P_AMQP; do
  if (exec 3<>"/dev/tcp/$IP/$p") 2>/dev/null && ! ls "$RUN"/*.pid >/dev/null 2>&1; then die "port $p is taken (OPENSTACK_ENV_PORT_OFFSET shifts them all)"; fi
done

# ---- message queue and database -----------------------------------------------------------------
cat >"$ETC/rabbitmq/env.sh" <<X
export HOME=$DATA/home ERL_EPMD_ADDRESS=$IP ERL_EPMD_PORT=$P_EPMD
export RABBITMQ_NODENAME=openstack-env@localhost RABBITMQ_NODE_IP_ADDRESS=$IP RABBITMQ_NODE_PORT=$P_AMQP RABBITMQ_DIST_PORT=$P_DIST
export RABBITMQ_MNESIA_BASE=$DATA/rabbitmq RABBITMQ_LOG_BASE=$LOG/rabbitmq RABBITMQ_CONFIG_FILE=$ETC/rabbitmq/rabbitmq
export RABBITMQ_ENABLED_PLUGINS_FILE=$ETC/rabbitmq/enabled_plugins RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_PID_FILE=$RUN/beam.pid
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"
X
mkdir -p "$LOG/rabbitmq"
[ -s "$DATA/home/.erlang.cookie" ] || { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$DATA/home/.erlang.cookie"; chmod 600 "$DATA/home/.erlang.cookie"; }
launch epmd epmd -address $IP -port $P_EPMD
( . "$ETC/rabbitmq/env.sh"; launch rabbitmq /usr/lib/rabbitmq/bin/rabbitmq-server )

if [ ! -d "$DATA/mysql/mysql" ]; then
  say "mariadb-install-db"
  mariadb-install-db --no-defaults --user=root --datadir="$DATA/mysql" --auth-root-authentication-method=normal \
    --skip-test-db >"$LOG/mariadb-install.log" 2>&1 || { tail "$LOG/mariadb-install.log"; die mariadb-install-db; }
fi
launch mariadb /usr/sbin/mariadbd --no-defaults --user=root --datadir="$DATA/mysql" --bind-address=$IP --port=$P_DB \
  --socket="$RUN/mysql.sock" --pid-file="$RUN/mariadbd.pid" --skip-log-bin --innodb-buffer-pool-size=256M \
  --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --max-connections=400 --skip-name-resolve \
  --character-set-server=utf8mb4 --performance-schema=OFF
for _ in $(seq 150); do sql -e 'select 1' >/dev/null 2>&1 && break; sleep 0.2; done
sql -e 'select 1' >/dev/null || { tail "$LOG/mariadb.log"; die mariadb; }
wait_tcp $P_AMQP 90 || { tail "$LOG/rabbitmq.log"; die rabbitmq; }
say "mariadb and rabbitmq are up ($(( $(date +%s) - T0 )) s)"

# ---- databases ------------------------------------------------------------------------------------
if [ ! -e "$DATA/.db-ready" ]; then
  say "creating databases"
  for d in keystone glance placement nova nova_api nova_cell0 neutron octavia cinder; do
    sql -e "CREATE DATABASE IF NOT EXISTS $d CHARACTER SET utf8mb3;
            GRANT ALL ON $d.* TO 'openstack'@'%' IDENTIFIED BY '$PW';"
  done
  step() { local n=$1; shift; "$@" >>"$LOG/dbsync-$n.log" 2>&1 || { tail -n 20 "$LOG/dbsync-$n.log"; echo "$n: $*" >>"$LOG/dbsync.failed"; return 1; }; }
  rm -f "$LOG/dbsync.failed"
  K="--config-file $ETC/keystone/keystone.conf"
  ( step keystone keystone-manage $K db_sync
    step keystone keystone-manage $K fernet_setup --keystone-user root --keystone-group root
    step keystone keystone-manage $K credential_setup --keystone-user root --keystone-group root
    step keystone keystone-manage $K bootstrap --bootstrap-password "$PW" --bootstrap-region-id $REGION \
      --bootstrap-admin-url "http://$IP:$P_KEYSTONE/v3" --bootstrap-internal-url "http://$IP:$P_KEYSTONE/v3" --bootstrap-public-url "http://$IP:$P_KEYSTONE/v3"
    step placement placement-manage --config-file "$ETC/placement/placement.conf" db sync
    step glance glance-manage --config-file "$ETC/glance/glance-api.conf" db_sync
    step octavia octavia-db-manage --config-file "$ETC/octavia/octavia.conf" upgrade head ) &
  a=$!
  ( N="--config-file $ETC/nova/nova.conf"
    step nova nova-manage $N api_db sync
    step nova nova-manage $N cell_v2 map_cell0 --database_connection "mysql+pymysql://openstack:$PW@$IP:$P_DB/nova_cell0?charset=utf8mb4"
    nova-manage $N cell_v2 list_cells 2>/dev/null | grep -q ' cell1 ' || step nova nova-manage $N cell_v2 create_cell --name cell1
    step nova nova-manage $N db sync
    [ "$WITH_CINDER" != 1 ] || step cinder cinder-manage --config-file "$ETC/cinder/cinder.conf" db sync ) &
  b=$!
  step neutron neutron-db-manage --config-file "$ETC/neutron/neutron.conf" --config-file "$ETC/neutron/ml2_conf.ini" upgrade heads || true
  wait $a || true; wait $b || true
  [ ! -e "$LOG/dbsync.failed" ] || { cat "$LOG/dbsync.failed"; die "database set-up"; }
  touch "$DATA/.db-ready"
  say "databases ready ($(( $(date +%s) - T0 )) s)"
fi

# ---- services -------------------------------------------------------------------------------------
up() { launch "$1" uwsgi --ini "$ETC/uwsgi/$1.ini"; }
up keystone
wait_http "http://$IP:$P_KEYSTONE/v3" 60 keystone || die keystone
"$VENV/bin/python" "$HERE/bootstrap.py" identity "$ROOT" $P_KEYSTONE $P_GLANCE $P_PLACEMENT $P_NOVA $P_NEUTRON $P_OCTAVIA $P_CINDER "$PW" || die "bootstrap identity"
say "keystone is up ($(( $(date +%s) - T0 )) s)"
up placement; up glance; up neutron-api; up nova-api
NEUTRON_ARGS="--config-file $ETC/neutron/neutron.conf --config-file $ETC/neutron/ml2_conf.ini"
launch neutron-rpc neutron-rpc-server $NEUTRON_ARGS
launch nova-conductor nova-conductor --config-file "$ETC/nova/nova.conf"
launch nova-scheduler nova-scheduler --config-file "$ETC/nova/nova.conf"
wait_http "http://$IP:$P_PLACEMENT/" 90 placement || die placement
launch nova-compute nova-compute --config-file "$ETC/nova/nova.conf"
launch agents openstack-env-agents $NEUTRON_ARGS
if [ "$WITH_CINDER" = 1 ]; then
  up cinder-api
  launch cinder-scheduler cinder-scheduler --config-file "$ETC/cinder/cinder.conf"
  launch cinder-volume cinder-volume --config-file "$ETC/cinder/cinder.conf"
fi
wait_http "http://$IP:$P_GLANCE/" 90 glance || die glance
wait_http "http://$IP:$P_NOVA/" 90 nova-api || die nova-api
wait_http "http://$IP:$P_NEUTRON/" 90 neutron-api || die neutron-api
[ "$WITH_CINDER" != 1 ] || wait_http "http://$IP:$P_CINDER/" 90 cinder-api || die cinder-api
say "nova, neutron, glance, placement, cinder answer ($(( $(date +%s) - T0 )) s)"
"$VENV/bin/python" "$HERE/bootstrap.py" base "$ROOT" || die "bootstrap base"
. "$ETC/octavia/ids.env"
sed -i -e "s/^amp_image_owner_id = .*/amp_image_owner_id = $AMP_OWNER/" -e "s/^amp_flavor_id = .*/amp_flavor_id = $AMP_FLAVOR/" \
  -e "s/^amp_boot_network_list = .*/amp_boot_network_list = $AMP_NET/" -e "s/^amp_secgroup_list = .*/amp_secgroup_list = $AMP_SG/" "$ETC/octavia/octavia.conf"
up octavia-api
launch octavia-worker octavia-worker --config-file "$ETC/octavia/octavia.conf"
[ "${OPENSTACK_ENV_WITH_HM:-0}" != 1 ] || launch octavia-health octavia-health-manager --config-file "$ETC/octavia/octavia.conf"
[ "${OPENSTACK_ENV_WITH_HK:-0}" != 1 ] || launch octavia-housekeeping octavia-housekeeping --config-file "$ETC/octavia/octavia.conf"
wait_http "http://$IP:$P_OCTAVIA/" 60 octavia-api || die octavia-api
# the first compute host must be mapped to its cell before anything can be scheduled
if ! sql -N -e "select 1 from nova_api.host_mappings limit 1" | grep -q 1; then
  for _ in $(seq 40); do
    sql -N -e "select 1 from nova.compute_nodes limit 1" | grep -q 1 && break; sleep 0.5
  done
  nova-manage --config-file "$ETC/nova/nova.conf" cell_v2 discover_hosts >>"$LOG/dbsync-nova.log" 2>&1 || true
fi
for n in nova-compute nova-conductor nova-scheduler neutron-rpc agents octavia-worker $([ "$WITH_CINDER" != 1 ] || echo cinder-scheduler cinder-volume); do
  alive "$n" || { tail -n 5 "$LOG/$n.log"; die "$n has ended"; }
done
say "all up in $(( $(date +%s) - T0 )) s; . $ROOT/admin-openrc or $ROOT/demo-openrc"
