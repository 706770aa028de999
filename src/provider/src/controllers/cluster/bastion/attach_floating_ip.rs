//! Reads the addresses of a running bastion from its port, and puts the floating IP on that port.

use std::{net::IpAddr, time::Duration};

use super::{
    Bastion,
    floating_ip::{self, DesiredFloatingIp},
    observation::SeenBastion,
};
use crate::controllers::cluster::{pass::Pass, step_context::StepContext};
use crate::kubernetes::conditions::kind::BASTION_READY;
use crate::reconcile::{StepError, StepResult};
use capo_api::v1beta2::BastionStatus;
use capo_core::{Lookup, Priority, Reason, ids::PortId};
use capo_openstack::network::PortFilter;

/// The time after which the bastion's ports and floating IP are read again.
const AGE: Duration = Duration::from_mins(5);

impl Bastion {
    /// Reads the address of a server that runs, and puts the floating IP on it.
    pub(super) async fn attach_floating_ip(
        &self,
        pass: &mut Pass<'_>,
        context: &StepContext<'_>,
        instance: &str,
        shown: &mut BastionStatus,
    ) -> StepResult<()> {
        let generation = pass.generation();
        if let Some(seen) = &pass.cached.bastion
            && seen.status.id.as_deref() == Some(instance)
            && seen.generation == generation
            && pass.now.saturating_duration_since(seen.read_at) < AGE
        {
            shown.ip.clone_from(&seen.status.ip);
            shown.floating_ip.clone_from(&seen.status.floating_ip);
            return Ok(());
        }
        let Some(network) = pass.cached.networking.network.found() else {
            // The condition NetworkReady shows why the network is unknown.
            return Ok(());
        };
        let network = network.network.id.clone();
        let (port, ip) = management_port(pass, context, instance, network.as_str()).await?;
        shown.ip = Some(ip.to_string());
        match pass.cached.networking.external.clone() {
            Lookup::Unknown => return Ok(()),
            Lookup::Absent => shown.floating_ip = None,
            // Floating IPs are IPv4 only. If the spec names one, it is tried even so, because then Neutron's refusal is
            // reported.
            Lookup::Found(_) if ip.is_ipv6() && self.given.is_none() => shown.floating_ip = None,
            Lookup::Found(external) => {
                let desired = DesiredFloatingIp {
                    external: &external.id,
                    port: &port,
                    given: self.given,
                    kept: self.kept,
                };
                let fip = floating_ip::ensure(context, desired).await?;
                shown.floating_ip = fip.floating_ip_address.map(|ip| ip.to_string());
            }
        }
        pass.cached.bastion = Some(SeenBastion {
            status: shown.clone(),
            generation,
            read_at: pass.now,
        });
        Ok(())
    }
}

/// The bastion's port in the cluster's network, and its address.
async fn management_port(
    pass: &Pass<'_>,
    context: &StepContext<'_>,
    instance: &str,
    network: &str,
) -> StepResult<(PortId, IpAddr)> {
    let filter = PortFilter {
        device_id: Some(instance.to_owned()),
        network_id: Some(network.into()),
        ..PortFilter::default()
    };
    let ports = context
        .cloud
        .ports(&filter, Priority::Settling)
        .await
        .map_err(|error| {
            let doing = "Looking for the bastion's port in the cluster's network";
            StepError::cloud(BASTION_READY, Reason::OpenStackError, doing, &error)
        })?;
    let with_address = ports.into_iter().find_map(|port| {
        let addresses = port.fixed_ips.iter().filter_map(|ip| ip.ip_address);
        let mut addresses: Vec<IpAddr> = addresses.collect();
        addresses.sort_by_key(IpAddr::is_ipv6);
        Some((port.id, *addresses.first()?))
    });
    with_address.ok_or_else(|| {
        StepError::refused(
            BASTION_READY,
            Reason::InvalidSpec,
            format!(
                "OpenStackCluster {}: the bastion has no port with an address in the cluster's network {network}; one of \
                 spec.bastion.spec.ports in that network is needed",
                pass.name
            ),
        )
    })
}
