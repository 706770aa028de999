"""Stands in for the data plane agents of ML2/Open vSwitch, over Neutron's own agent RPC.

No bridge and no namespace is touched. It
 * reports the state of one Open vSwitch agent and one L3 agent (so that ports bind, routers are scheduled),
 * reports every port bound to its host as wired (DOWN -> ACTIVE, and nova gets network-vif-plugged),
 * reports every floating IP of its routers as ACTIVE when associated.
If $OPENSTACK_ENV_RUN/agents-hold exists it only sends heartbeats: ports and floating IPs stay as they are.
"""
import logging as pylogging
import os
import sys
import time

from neutron.agent import rpc as agent_rpc
from neutron.agent.l3 import agent as l3_agent
from neutron.common import config as common_config
from neutron.conf.agent import common as agent_conf
from neutron_lib.agent import topics
from neutron_lib import constants
from neutron_lib import context as n_context
from neutron_lib import rpc as n_rpc
from oslo_config import cfg
from oslo_log import log as logging

LOG = logging.getLogger("openstack_env.agents")
HOLD = os.path.join(os.environ.get('OPENSTACK_ENV_RUN', ''), 'agents-hold')


def main():
    common_config.register_common_config_options()
    agent_conf.register_agent_state_opts_helper(cfg.CONF)
    common_config.init(sys.argv[1:])
    common_config.setup_logging()
    pylogging.getLogger('neutron').setLevel(pylogging.WARNING)
    n_rpc.TRANSPORT or n_rpc.init(cfg.CONF)
    host = cfg.CONF.host
    ctx = n_context.get_admin_context()
    state_rpc = agent_rpc.PluginReportStateAPI(topics.REPORTS)
    plugin_rpc = agent_rpc.PluginApi(topics.PLUGIN)
    l3_rpc = l3_agent.L3PluginApi(topics.L3PLUGIN, host)
    ovs_id = 'ovs-agent-%s' % host
    states = [
        {'binary': 'neutron-openvswitch-agent', 'host': host, 'topic': constants.L2_AGENT_TOPIC,
         'agent_type': constants.AGENT_TYPE_OVS, 'start_flag': True,
         'configurations': {'bridge_mappings': {'physnet1': 'br-ex'}, 'tunnel_types': ['vxlan'],
                            'tunneling_ip': '127.0.0.1', 'datapath_type': 'system',
                            'l2_population': False, 'devices': 0, 'integration_bridge': 'br-int',
                            'ovs_hybrid_plug': False, 'vhostuser_socket_dir': '',
                            'ovs_capabilities': {'datapath_types': ['system'], 'iface_types': []}}},
        {'binary': 'neutron-l3-agent', 'host': host, 'topic': topics.L3_AGENT, 'availability_zone': 'nova',
         'agent_type': constants.AGENT_TYPE_L3, 'start_flag': True,
         'configurations': {'agent_mode': 'legacy', 'handle_internal_only_routers': True,
                            'interface_driver': 'openvswitch', 'log_agent_heartbeats': False}},
    ]
    last_report, known = 0.0, {}
    while True:
        try:
            if time.monotonic() - last_report > 10:
                for s in states:
                    state_rpc.report_state(ctx, s, use_call=True)
                    s.pop('start_flag', None)
                last_report = time.monotonic()
            if not os.path.exists(HOLD):
                wire_ports(plugin_rpc, ctx, ovs_id, host)
                wire_fips(l3_rpc, ctx, known)
        except Exception:
            LOG.exception('agent loop')
            last_report = 0.0
            time.sleep(2)
        time.sleep(float(os.environ.get('OPENSTACK_ENV_AGENT_INTERVAL', '1')))


def wire_ports(plugin_rpc, ctx, ovs_id, host):
    ports = plugin_rpc.get_ports_by_vnic_type_and_host(ctx, vnic_type='normal', host=host)
    down = [p['id'] for p in ports if p['status'] != constants.PORT_STATUS_ACTIVE and p['admin_state_up']]
    for pid in down:
        # both calls a real agent makes: details (marks BUILD), then up
        plugin_rpc.get_device_details(ctx, pid, ovs_id, host=host)
        plugin_rpc.update_device_up(ctx, pid, ovs_id, host=host)
        LOG.info('wired port %s', pid)


def wire_fips(l3_rpc, ctx, known):
    """known: router id -> floating IPs seen on it; one that has left is reported DOWN, as the L3 agent does."""
    now = {}
    ids = l3_rpc.get_router_ids(ctx)
    for r in l3_rpc.get_routers(ctx, ids) if ids else []:
        fips = {f['id']: f['status'] for f in r.get(constants.FLOATINGIP_KEY, [])}
        now[r['id']] = set(fips)
        report = {i: constants.FLOATINGIP_STATUS_ACTIVE for i, s in fips.items()
                  if s != constants.FLOATINGIP_STATUS_ACTIVE}
        report.update({i: constants.FLOATINGIP_STATUS_DOWN for i in known.get(r['id'], set()) - set(fips)})
        if report:
            l3_rpc.update_floatingip_statuses(ctx, r['id'], report)
            LOG.info('floating IPs of router %s: %s', r['id'], report)
    known.clear()
    known.update(now)


if __name__ == '__main__':
    main()
