#!/usr/bin/env bash
# Drives the fake cloud with the real openstack command through a server, a network and a load balancer with members.
# usage: openstackclient.sh FAKE_CLOUD OPENSTACK      (paths of the two programs)
set -euo pipefail
fake_cloud=$1
openstack=$2
folder=$(mktemp -d)
trap 'kill "$pid" 2>/dev/null || true; rm -rf "$folder"' EXIT
"$fake_cloud" --load-balancer-create 1 --operation 0.2 --server-build 0.3 --clouds-yaml "$folder/clouds.yaml" \
    >"$folder/out" 2>"$folder/log" &
pid=$!
for _ in $(seq 100); do
    grep -q admin: "$folder/out" && break
    sleep 0.1
done
base=$(sed -n 's|.*auth_url: \(http://[^/]*\)/.*|\1|p' "$folder/clouds.yaml" | head -1)
export OS_CLIENT_CONFIG_FILE=$folder/clouds.yaml OS_CLOUD=demo

# One interpreter for all commands: each answers one value, and the list below says which.
cat >"$folder/commands" <<'C'
network create net -f value -c status
subnet create --network net --subnet-range 127.66.0.0/24 sub -f value -c cidr
router create router -f value -c status
router set --external-gateway public router
router add subnet router sub
security group create group -f value -c name
security group rule create --protocol tcp --dst-port 6443 group -f value -c port_range_min
port create --network net --security-group group --tag first port -f value -c name
server create --flavor m1.tiny --image cirros --port port --wait server -f value -c status
loadbalancer create --name lb --vip-subnet-id sub --wait -f value -c provisioning_status
loadbalancer listener create --name listener --protocol TCP --protocol-port 6443 --wait lb -f value -c provisioning_status
loadbalancer pool create --name pool --protocol TCP --lb-algorithm ROUND_ROBIN --listener listener --wait -f value -c provisioning_status
loadbalancer healthmonitor create --name monitor --delay 5 --timeout 3 --max-retries 3 --type TCP --wait pool -f value -c type
loadbalancer member create --name one --address 127.66.0.10 --protocol-port 6443 --wait pool -f value -c provisioning_status
loadbalancer member create --name two --address 127.66.0.11 --protocol-port 6443 --wait pool -f value -c provisioning_status
loadbalancer member list pool -f value -c name -c provisioning_status --sort-column name
loadbalancer member set --weight 0 --wait pool one
loadbalancer member show pool one -f value -c weight
loadbalancer member delete --wait pool one
loadbalancer member list pool -f value -c name
floating ip create public -f value -c status
loadbalancer delete --cascade --wait lb
loadbalancer list -f value
server delete --wait server
port delete port
router remove subnet router sub
router delete router
security group delete group
network delete net
network list -f value -c Name
volume create --size 1 volume -f value -c name
C
cat >"$folder/expected" <<'E2'
ACTIVE
127.66.0.0/24
ACTIVE
group
6443
port
ACTIVE
ACTIVE
ACTIVE
ACTIVE
TCP
ACTIVE
ACTIVE
one ACTIVE
two ACTIVE
0
two
DOWN
public
volume
E2
cd "$folder"
"$openstack" <"$folder/commands" 2>"$folder/errors" | sed 's/^(openstack) *//; /^$/d' >"$folder/actual" || true
if ! diff -u "$folder/expected" "$folder/actual"; then
    cat "$folder/errors" "$folder/log" >&2
    echo "openstackclient and the fake cloud disagree" >&2
    exit 1
fi
echo "openstackclient drove $base through $(grep -c . "$folder/commands") commands"
