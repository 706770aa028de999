"""Octavia's own noop amphora driver, with a delay and a failure switch read at every call.

Two files under $OPENSTACK_ENV_RUN (absent: behave exactly as amphora_noop_driver):
  octavia-delay  seconds to sleep each time a configuration is pushed to an amphora; with a name behind them, only
                 while a member whose name ends so is being created
  octavia-fail   if it exists, that push raises (the objects go to ERROR, as with a dead amphora)
"""
import os
import time

from octavia.amphorae.drivers.noop_driver import driver
from octavia.common import exceptions
from oslo_log import log as logging

LOG = logging.getLogger(__name__)
RUN = os.environ.get('OPENSTACK_ENV_RUN', '')


def _delay(loadbalancer):
    try:
        with open(os.path.join(RUN, 'octavia-delay')) as f:
            seconds, _, suffix = f.read().strip().partition(' ')
        seconds = float(seconds or 0)
    except (OSError, ValueError):
        return 0
    members = [member for pool in (loadbalancer.pools or []) for member in pool.members]
    created = [member.name or '' for member in members if member.provisioning_status == 'PENDING_CREATE']
    return seconds if any(name.endswith(suffix) for name in created) or not suffix else 0


def _hook(what, loadbalancer):
    delay = _delay(loadbalancer)
    if delay > 0:
        LOG.info('slow noop: %s sleeps %s s', what, delay)
        time.sleep(delay)
    if os.path.exists(os.path.join(RUN, 'octavia-fail')):
        raise exceptions.OctaviaException('slow noop: told to fail in %s' % what)


class SlowNoopDriver(driver.NoopAmphoraLoadBalancerDriver):
    def update_amphora_listeners(self, loadbalancer, amphora, timeout_dict):
        _hook('update_amphora_listeners', loadbalancer)
        super().update_amphora_listeners(loadbalancer, amphora, timeout_dict)

    def update(self, loadbalancer):
        _hook('update', loadbalancer)
        super().update(loadbalancer)

    def delete(self, listener):
        _hook('delete', listener.load_balancer)
        super().delete(listener)
