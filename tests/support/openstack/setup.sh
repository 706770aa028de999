#!/usr/bin/env bash
# Installs and configures a real OpenStack control plane under ROOT. Usage: setup.sh [ROOT]
# Idempotent: what is there already is kept; configuration files are written anew each time.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
T0=$(date +%s)

# ---- 1. Debian packages: only binaries, nothing is started -------------------------------------
need=()
command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ] || need+=(mariadb-server-core mariadb-client-core)
[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || need+=(rabbitmq-server)
command -v redis-server >/dev/null || need+=(redis-server)     # Octavia's jobboard, see worker.sh
command -v openssl >/dev/null || need+=(openssl)
command -v gcc >/dev/null || need+=(gcc libc6-dev)     # uwsgi has no wheel
if [ ${#need[@]} -gt 0 ]; then
  say "apt-get install ${need[*]}"
  made_policy=
  if [ ! -e /usr/sbin/policy-rc.d ]; then printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d; made_policy=1; fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >>"$LOG/apt.log" 2>&1 || true
  apt-get install -y -q --no-install-recommends "${need[@]}" >>"$LOG/apt.log" 2>&1 || { tail "$LOG/apt.log"; die apt-get; }
  [ -z "$made_policy" ] || rm -f /usr/sbin/policy-rc.d
fi

# ---- 2. the virtualenv ------------------------------------------------------------------------
PY="${OPENSTACK_ENV_PYTHON:-python3.11}"
if [ ! -x "$VENV/bin/pip" ]; then say "virtualenv"; "$PY" -m venv "$VENV"; "$VENV/bin/pip" install -q -U pip setuptools wheel; fi
stamp="$VENV/.openstack-env-$(sha256sum "$HERE/constraints.txt" | cut -c1-16)"
if [ ! -e "$stamp" ]; then
  say "pip install (OpenStack)"
  "$VENV/bin/pip" install -q -c "$HERE/constraints.txt" \
    keystone glance openstack-placement nova neutron octavia cinder \
    python-openstackclient python-octaviaclient python-neutronclient osc-placement pymysql pymemcache uwsgi
  touch "$stamp"
fi
pstamp="$VENV/.openstack-env-plugins-$(cat "$HERE"/plugins/pyproject.toml "$HERE"/plugins/openstack_env/*.py | sha256sum | cut -c1-16)"
if [ ! -e "$pstamp" ]; then
  say "pip install (plugins)"
  rm -rf "$DATA/plugins-src"; cp -r "$HERE/plugins" "$DATA/plugins-src"      # the build leaves droppings
  "$VENV/bin/pip" install -q --no-deps --no-build-isolation --force-reinstall "$DATA/plugins-src"
  rm -f "$VENV"/.openstack-env-plugins-*; touch "$pstamp"
fi

# nova loads virt drivers from its own package only
echo 'from openstack_env.nova_fake import FakeDriver  # noqa' >"$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/nova/virt/openstack_env.py"

# ---- 3. configuration -------------------------------------------------------------------------
say "configuration"
AUTH="http://$IP:$P_KEYSTONE/v3"
AMQP="rabbit://guest:guest@$IP:$P_AMQP/"
db() { echo "mysql+pymysql://openstack:$PW@$IP:$P_DB/$1?charset=utf8mb4"; }
authsec() { # SECTION USER
cat <<X
[$1]
auth_url = $AUTH
www_authenticate_uri = $AUTH
auth_type = password
username = $2
password = $PW
project_name = service
user_domain_name = Default
project_domain_name = Default
region_name = $REGION
X
}
common() { # NAME: settings every service shares ([DEFAULT] must be open)
cat <<X
transport_url = $AMQP
debug = ${OPENSTACK_ENV_DEBUG:-false}
use_stderr = true
rpc_response_timeout = 60
state_path = $DATA/$1
host = $COMPUTE_HOST
X
}
mkdir -p "$ETC"/{keystone,glance,placement,nova,neutron,octavia,cinder,uwsgi,rabbitmq} \
  "$DATA"/{keystone,glance/images,glance/staging,glance/tasks,nova,neutron,octavia/certs,cinder,rabbitmq,home,lock}

cat >"$ETC/keystone/keystone.conf" <<X
[DEFAULT]
use_stderr = true
max_token_size = 512
[database]
connection = $(db keystone)
max_pool_size = 5
[token]
provider = fernet
expiration = 86400
[fernet_tokens]
key_repository = $ETC/keystone/fernet-keys
[credential]
key_repository = $ETC/keystone/credential-keys
[fernet_receipts]
key_repository = $ETC/keystone/fernet-keys
[cache]
# in-process cache: right only with one keystone process (see the uwsgi settings); 20 times faster than none
enabled = true
backend = dogpile.cache.memory
expiration_time = 600
[identity]
# cheap password hashes: the services log in with passwords, and bcrypt's default costs 0.2 s of CPU a time
password_hash_rounds = 4
X

cat >"$ETC/glance/glance-api.conf" <<X
[DEFAULT]
use_stderr = true
enabled_backends = file1:file
enabled_import_methods = [glance-direct,web-download,copy-image]
worker_self_reference_url = http://$IP:$P_GLANCE
[database]
connection = $(db glance)
[glance_store]
default_backend = file1
[file1]
filesystem_store_datadir = $DATA/glance/images
[os_glance_staging_store]
filesystem_store_datadir = $DATA/glance/staging
[os_glance_tasks_store]
filesystem_store_datadir = $DATA/glance/tasks
[paste_deploy]
flavor = keystone
config_file = $VENV/etc/glance/glance-api-paste.ini
[oslo_concurrency]
lock_path = $DATA/lock
[barbican]
[cors]
$(authsec keystone_authtoken glance)
X

cat >"$ETC/placement/placement.conf" <<X
[DEFAULT]
use_stderr = true
[api]
auth_strategy = keystone
[placement_database]
connection = $(db placement)
$(authsec keystone_authtoken placement)
X

cat >"$ETC/nova/nova.conf" <<X
[DEFAULT]
$(common nova)
my_ip = $IP
compute_driver = openstack_env.FakeDriver
instances_path = $DATA/nova/instances
allow_resize_to_same_host = true
vif_plugging_is_fatal = false
vif_plugging_timeout = 0
update_resources_interval = 0
[fake]
[wsgi]
api_paste_config = $VENV/etc/nova/api-paste.ini
[api]
auth_strategy = keystone
[api_database]
connection = $(db nova_api)
[database]
connection = $(db nova_cell0 | sed s/nova_cell0/nova/)
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 10
[filter_scheduler]
enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,SameHostFilter,DifferentHostFilter
[conductor]
workers = 1
[vnc]
enabled = false
[glance]
api_servers = http://$IP:$P_GLANCE
[oslo_concurrency]
lock_path = $DATA/lock
$(authsec keystone_authtoken nova)
$(authsec placement nova)
$(authsec neutron nova)
$(authsec service_user nova)
send_service_user_token = true
$(authsec cinder nova)
catalog_info = volumev3::publicURL
os_region_name = $REGION
X

cp "$VENV/etc/nova/api-paste.ini" "$ETC/nova/"      # nova's WSGI start insists on it beside nova.conf

cat >"$ETC/neutron/neutron.conf" <<X
[DEFAULT]
$(common neutron)
auth_strategy = keystone
core_plugin = ml2
service_plugins = router,trunk,qos,port_forwarding,network_ip_availability
api_paste_config = $VENV/etc/neutron/api-paste.ini
allow_overlapping_ips = true
dhcp_agent_notification = false
l3_ha = false
rpc_workers = 1
rpc_state_report_workers = 0
notify_nova_on_port_status_changes = true
notify_nova_on_port_data_changes = true
agent_down_time = 75
global_physnet_mtu = 1500
[quotas]
quota_network = 500
quota_subnet = 500
quota_port = 5000
quota_router = 500
quota_floatingip = 500
quota_security_group = 500
quota_security_group_rule = 5000
[agent]
root_helper =
report_interval = 30
[database]
connection = $(db neutron)
[oslo_concurrency]
lock_path = $DATA/lock
[oslo_messaging_notifications]
driver = noop
$(authsec keystone_authtoken neutron)
$(authsec nova nova)
$(authsec placement neutron)
X
cat >"$ETC/neutron/ml2_conf.ini" <<X
[ml2]
type_drivers = flat,vlan,vxlan
tenant_network_types = vxlan
mechanism_drivers = openvswitch
extension_drivers = port_security,qos
overlay_ip_version = 4
[ml2_type_flat]
flat_networks = *
[ml2_type_vlan]
network_vlan_ranges = physnet1:100:199
[ml2_type_vxlan]
vni_ranges = 1:9999
[securitygroup]
enable_security_group = true
X

cat >"$ETC/cinder/cinder.conf" <<X
[DEFAULT]
$(common cinder)
my_ip = $IP
auth_strategy = keystone
api_paste_config = $VENV/etc/cinder/api-paste.ini
enabled_backends = fake
default_volume_type = fake
glance_api_servers = http://$IP:$P_GLANCE
rootwrap_config = $VENV/etc/cinder/rootwrap.conf
resource_query_filters_file = $VENV/etc/cinder/resource_filters.json
[fake]
volume_driver = openstack_env.cinder_fake.FakeVolumeDriver
volume_backend_name = fake
[database]
connection = $(db cinder)
[oslo_concurrency]
lock_path = $DATA/lock
[coordination]
backend_url = file://$DATA/cinder
$(authsec keystone_authtoken cinder)
$(authsec service_user cinder)
send_service_user_token = true
$(authsec nova cinder)
X

# Octavia: a CA of its own for the (never contacted) amphorae
C="$DATA/octavia/certs"
if [ ! -s "$C/ca.pem" ]; then
  openssl req -x509 -newkey rsa:2048 -keyout "$C/ca.key" -out "$C/ca.pem" -days 3650 -passout "pass:$PW" \
    -subj /CN=openstack-env-octavia-ca >/dev/null 2>&1
  openssl req -x509 -newkey rsa:2048 -nodes -keyout "$C/client.key" -out "$C/client.crt" -days 3650 \
    -subj /CN=openstack-env-octavia-client >/dev/null 2>&1
  cat "$C/client.key" "$C/client.crt" >"$C/client.pem"
fi
[ -s "$ETC/octavia/ids.env" ] || printf 'AMP_FLAVOR=\nAMP_NET=\nAMP_SG=\nAMP_OWNER=\n' >"$ETC/octavia/ids.env"
. "$ETC/octavia/ids.env"
cat >"$ETC/octavia/octavia.conf" <<X
[DEFAULT]
transport_url = $AMQP
debug = ${OPENSTACK_ENV_DEBUG:-false}
use_stderr = true
host = $COMPUTE_HOST
rpc_response_timeout = 60
[api_settings]
bind_host = $IP
bind_port = $P_OCTAVIA
auth_strategy = keystone
enabled_provider_drivers = amphora:The Octavia Amphora driver,amphorav2:The Octavia Amphora driver,ovn:Behaves as OVN for clients,octavia:alias
default_provider_driver = amphora
healthcheck_enabled = true
[database]
connection = $(db octavia)
[oslo_messaging]
topic = octavia_prov
[health_manager]
bind_ip = $IP
bind_port = $P_HM
controller_ip_port_list = $IP:$P_HM
heartbeat_key = $PW
[certificates]
cert_generator = local_cert_generator
cert_manager = local_cert_manager
ca_certificate = $C/ca.pem
ca_private_key = $C/ca.key
ca_private_key_passphrase = $PW
server_certs_key_passphrase = insecure-key-do-not-use-this-key
storage_path = $C
[haproxy_amphora]
server_ca = $C/ca.pem
client_cert = $C/client.pem
[controller_worker]
workers = 1
amphora_driver = amphora_slow_noop_driver
compute_driver = compute_nova_driver
network_driver = allowed_address_pairs_driver
volume_driver = volume_noop_driver
image_driver = image_glance_driver
loadbalancer_topology = SINGLE
amp_image_tag = amphora
amp_image_owner_id = $AMP_OWNER
amp_flavor_id = $AMP_FLAVOR
amp_boot_network_list = $AMP_NET
amp_secgroup_list = $AMP_SG
client_ca = $C/ca.pem
amp_active_wait_sec = 1
amp_active_retries = 60
[task_flow]
jobboard_enabled = false
engine = parallel
[house_keeping]
[driver_agent]
status_socket_path = $RUN/octavia-status.sock
stats_socket_path = $RUN/octavia-stats.sock
get_socket_path = $RUN/octavia-get.sock
[oslo_concurrency]
lock_path = $DATA/lock
[nova]
region_name = $REGION
[neutron]
region_name = $REGION
[glance]
region_name = $REGION
$(authsec keystone_authtoken octavia)
$(authsec service_auth octavia)
X
# What a worker reads in addition where it has a jobboard (worker.sh). Five minutes after the last sign of life of a worker
# its claims expire, and another worker resumes its jobs.
cat >"$ETC/octavia/jobboard.conf" <<X
[DEFAULT]
# A worker logs the jobs that it finishes.
default_log_levels = amqp=WARN,sqlalchemy=WARN,stevedore=WARN,urllib3=WARN,keystoneauth=WARN,taskflow=WARN,taskflow.conductors=INFO
[task_flow]
jobboard_enabled = true
persistence_connection = $(db octavia_persistence)
jobboard_backend_driver = redis_taskflow_driver
jobboard_backend_hosts = $IP
jobboard_backend_port = $P_REDIS
jobboard_expiration_time = 300
X

# ---- uwsgi --------------------------------------------------------------------------------------
uw() { # NAME PORT MODULE PROCESSES THREADS [extra lines]
cat >"$ETC/uwsgi/$1.ini" <<X
[uwsgi]
http-socket = $IP:$2
module = $3
master = true
processes = $4
threads = $5
enable-threads = true
lazy-apps = true
need-app = true
die-on-term = true
thunder-lock = true
buffer-size = 65535
listen = 128
hook-master-start = unix_signal:15 gracefully_kill_them_all
worker-reload-mercy = 5
add-header = Connection: close
disable-logging = ${OPENSTACK_ENV_NO_ACCESS_LOG:-false}
log-format = %(ltime) %(method) %(uri) => %(status) in %(msecs) ms
${6:-}
X
}
uw keystone  $P_KEYSTONE  keystone.wsgi.api:application 1 8 "env = OS_KEYSTONE_CONFIG_DIR=$ETC/keystone"
uw glance    $P_GLANCE    glance.wsgi.api:application 1 4 "env = OS_GLANCE_CONFIG_DIR=$ETC/glance
http-chunked-input = true"
uw placement $P_PLACEMENT placement.wsgi.api:application 1 4 "env = OS_PLACEMENT_CONFIG_DIR=$ETC/placement"
uw nova-api  $P_NOVA      nova.wsgi.osapi_compute:application 1 8 "env = OS_NOVA_CONFIG_DIR=$ETC/nova"
uw neutron-api $P_NEUTRON neutron.wsgi.api:application 1 8 "env = OS_NEUTRON_CONFIG_DIR=$ETC/neutron
env = OS_NEUTRON_CONFIG_FILES=neutron.conf;ml2_conf.ini"
uw octavia-api $P_OCTAVIA octavia.wsgi.api:application 1 8 "pyargv = --config-file $ETC/octavia/octavia.conf"
uw cinder-api $P_CINDER   cinder.wsgi.api:application 1 4 "pyargv = --config-file $ETC/cinder/cinder.conf"

# ---- RabbitMQ ------------------------------------------------------------------------------------
cat >"$ETC/rabbitmq/rabbitmq.conf" <<X
listeners.tcp.default = $IP:$P_AMQP
log.file.level = warning
log.console = false
vm_memory_high_watermark.absolute = 512MiB
disk_free_limit.absolute = 50MB
X
echo '[].' >"$ETC/rabbitmq/enabled_plugins"

# ---- client files ---------------------------------------------------------------------------------
rc() { # FILE USER PROJECT
cat >"$ROOT/$1" <<X
unset \${!OS_*}
export OS_AUTH_URL=$AUTH OS_USERNAME=$2 OS_PASSWORD=$PW OS_PROJECT_NAME=$3
export OS_USER_DOMAIN_NAME=Default OS_PROJECT_DOMAIN_NAME=Default OS_REGION_NAME=$REGION
export OS_IDENTITY_API_VERSION=3 OS_INTERFACE=public
export PATH=$VENV/bin:\$PATH
X
}
rc admin-openrc admin admin
rc demo-openrc demo demo
cat >"$ROOT/clouds.yaml" <<X
clouds:
  admin: &base
    auth: {auth_url: "$AUTH", username: admin, password: "$PW", project_name: admin, user_domain_name: Default, project_domain_name: Default}
    region_name: $REGION
    interface: public
    identity_api_version: 3
  demo:
    auth: {auth_url: "$AUTH", username: demo, password: "$PW", project_name: demo, user_domain_name: Default, project_domain_name: Default}
    region_name: $REGION
    interface: public
    identity_api_version: 3
X
say "setup done in $(( $(date +%s) - T0 )) s, root $ROOT"
