"""Octavia's own amphora provider under the name of OVN's, so that what capo-rs does for OVN runs through Octavia's flows.

It takes the one algorithm that OVN has and amphorae have not. No amphora runs, so weights have an effect only in the data
path that the tests play, which ignores them where the load balancer's provider is named ovn.
"""
from octavia.api.drivers.amphora_driver.v2 import driver


class OvnLikeDriver(driver.AmphoraProviderDriver):
    def _validate_pool_algorithm(self, pool):
        if pool.lb_algorithm != 'SOURCE_IP_PORT':
            super()._validate_pool_algorithm(pool)
