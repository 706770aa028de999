"""Users, catalogue and base objects, through the real APIs. Called by start.sh; safe to repeat."""
import os
import sys
import time

import openstack

what, root = sys.argv[1], sys.argv[2]
os.environ['OS_CLIENT_CONFIG_FILE'] = os.path.join(root, 'clouds.yaml')
c = openstack.connect(cloud='admin')


def identity(ks, glance, placement, nova, neutron, octavia, cinder, pw):
    i = c.identity
    dom = 'default'
    role = {r.name: r for r in i.roles()}
    for name in ('service', 'load-balancer_member', 'load-balancer_admin'):
        role.get(name) or role.setdefault(name, i.create_role(name=name))
    proj = {p.name: p for p in i.projects(domain_id=dom)}
    for name in ('service', 'demo'):
        proj.get(name) or proj.setdefault(name, i.create_project(name=name, domain_id=dom))
    have = {u.name: u for u in i.users(domain_id=dom)}

    def user(name, project, roles):
        if name in have:
            return
        u = i.create_user(name=name, password=pw, domain_id=dom, default_project_id=project.id)
        for r in roles:
            i.assign_project_role_to_user(project, u, role[r])
    # as kolla-ansible and devstack do: the services' users are admin and service in the service project
    for name in ('glance', 'placement', 'nova', 'neutron', 'octavia', 'cinder'):
        user(name, proj['service'], ('admin', 'service'))
    user('demo', proj['demo'], ('member', 'load-balancer_member'))
    services = {s.type: s for s in i.services()}
    ends = {e.service_id for e in i.endpoints()}
    for stype, sname, url in (
            ('image', 'glance', 'http://127.0.0.1:%s' % glance),
            ('placement', 'placement', 'http://127.0.0.1:%s' % placement),
            ('compute', 'nova', 'http://127.0.0.1:%s/v2.1' % nova),
            ('network', 'neutron', 'http://127.0.0.1:%s' % neutron),
            ('load-balancer', 'octavia', 'http://127.0.0.1:%s' % octavia),
            ('block-storage', 'cinder', 'http://127.0.0.1:%s/v3' % cinder),
            ('volumev3', 'cinderv3', 'http://127.0.0.1:%s/v3' % cinder)):
        if stype in ('block-storage', 'volumev3') and os.environ.get('OPENSTACK_ENV_WITH_CINDER', '1') != '1':
            continue
        s = services.get(stype) or i.create_service(type=stype, name=sname)
        if s.id not in ends:
            for iface in ('public', 'internal', 'admin'):
                i.create_endpoint(service_id=s.id, interface=iface, url=url, region_id='RegionOne')


def base():
    for name, cpu, ram, disk in (('m1.tiny', 1, 512, 1), ('m1.small', 1, 2048, 10), ('m1.medium', 2, 4096, 20), ('amphora', 1, 1024, 2)):
        c.compute.find_flavor(name) or c.compute.create_flavor(name=name, vcpus=cpu, ram=ram, disk=disk, is_public=name != 'amphora')
    n = c.network
    ext = n.find_network('public')
    if not ext:
        ext = n.create_network(name='public', is_router_external=True, provider_network_type='flat',
                               provider_physical_network='physnet1')
        n.create_subnet(network_id=ext.id, name='public-subnet', cidr='203.0.113.0/24', ip_version=4, is_dhcp_enabled=False,
                        gateway_ip='203.0.113.1', allocation_pools=[{'start': '203.0.113.10', 'end': '203.0.113.250'}])
    # what Octavia needs: management network, security group, image tagged "amphora", all in the service project
    svc = c.identity.find_project('service').id
    net = n.find_network('lb-mgmt-net')
    if not net:
        net = n.create_network(name='lb-mgmt-net', project_id=svc)
        n.create_subnet(network_id=net.id, name='lb-mgmt-subnet', cidr='172.31.0.0/16', ip_version=4, project_id=svc, gateway_ip=None)
    sg = n.find_security_group('lb-mgmt-sec-grp', project_id=svc) or n.create_security_group(name='lb-mgmt-sec-grp', project_id=svc)
    # the service project starts with quotas too small for many load balancers
    n.update_quota(svc, ports=-1, security_groups=-1, security_group_rules=-1, networks=-1)
    c.compute.update_quota_set(svc, cores=-1, instances=-1, ram=-1) if hasattr(c.compute, 'update_quota_set') else None
    img = next((i for i in c.image.images(tag='amphora')), None)
    if not img:
        img = c.image.create_image(name='amphora-x64', disk_format='raw', container_format='bare', data=b'\0' * 1024,
                                   tags=['amphora'], visibility='public')
    if not c.image.find_image('cirros'):
        c.image.create_image(name='cirros', disk_format='raw', container_format='bare', data=b'\0' * 1024, visibility='public')
    if os.environ.get('OPENSTACK_ENV_WITH_CINDER', '1') == '1':
        c.block_storage.find_type('fake') or c.block_storage.create_type(name='fake', is_public=True)
    owner = img.owner_id or c.current_project_id
    with open(os.path.join(root, 'etc/octavia/ids.env'), 'w') as f:
        f.write('AMP_FLAVOR=%s\nAMP_NET=%s\nAMP_SG=%s\nAMP_OWNER=%s\n'
                % (c.compute.find_flavor('amphora').id, net.id, sg.id, owner))


t = time.time()
identity(*sys.argv[3:]) if what == 'identity' else base()
print('bootstrap %s: %.1f s' % (what, time.time() - t))
