"""Prints the HAProxy configuration that Octavia's own templates give a load balancer.

Standard input: a JSON list of listeners as the fake cloud's data path has them (fake_cloud::octavia::AppliedListener), and
the load balancer's address as the first argument. Run by the Python that has Octavia installed.
"""

import json
import sys

from octavia.common import data_models as models
from octavia.common.jinja.haproxy.combined_listeners import jinja_cfg
from oslo_config import cfg


def monitor_of(given):
    return given and models.HealthMonitor(
        id="monitor",
        type=given["kind"],
        delay=given["delay"],
        timeout=given["timeout"],
        rise_threshold=given["rise"],
        fall_threshold=given["fall"],
        http_method="GET",
        url_path=given["path"],
        expected_codes="200",
        enabled=True,
    )


def member_of(given):
    address, port = given["check"]
    return models.Member(
        id=given["id"],
        ip_address=given["address"],
        protocol_port=given["port"],
        weight=given["weight"],
        backup=given["backup"],
        enabled=given["enabled"],
        monitor_address=None if address == given["address"] else address,
        monitor_port=None if port == given["port"] else port,
    )


def listener_of(balancer, given):
    pool = models.Pool(
        id=given["pool"]["id"],
        protocol="TCP",
        lb_algorithm="ROUND_ROBIN",
        enabled=True,
        load_balancer=balancer,
        members=[member_of(member) for member in given["pool"]["members"]],
        health_monitor=monitor_of(given["pool"]["monitor"]),
    )
    if pool.health_monitor:
        pool.health_monitor.pool = pool
    return models.Listener(
        id=given["id"],
        protocol="TCP",
        protocol_port=given["port"],
        enabled=given["enabled"],
        default_pool=pool,
        pools=[pool],
        load_balancer=balancer,
        connection_limit=-1,
        timeout_client_data=50000,
        timeout_member_connect=5000,
        timeout_member_data=50000,
        timeout_tcp_inspect=0,
        l7policies=[],
        allowed_cidrs=[],
    )


def main():
    cfg.CONF([], project="octavia")
    amphora = models.Amphora(id="amphora", role="STANDALONE", status="ALLOCATED")
    balancer = models.LoadBalancer(
        id="balancer",
        project_id="project",
        topology="SINGLE",
        enabled=True,
        amphorae=[amphora],
        vip=models.Vip(ip_address=sys.argv[1]),
    )
    balancer.listeners = [listener_of(balancer, given) for given in json.load(sys.stdin)]
    balancer.pools = [listener.default_pool for listener in balancer.listeners]
    templates = jinja_cfg.JinjaTemplater(base_amp_path="/states", base_crt_dir="/certificates")
    print(
        templates.build_config(
            host_amphora=amphora,
            listeners=balancer.listeners,
            tls_certs=None,
            haproxy_versions=("2", "6"),
            amp_details={"cpu_count": 1},
        )
    )


main()
