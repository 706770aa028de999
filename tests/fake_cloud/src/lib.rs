//! A stateful OpenStack on loopback: Keystone, Nova, Neutron, Glance, Cinder and Octavia behind one address, with
//! faults on request, a record of every call, and load balancers that balance TCP connections on 127.0.0.0/8.
//!
//! The services are one pure state machine (`world`): its input is a call and the time, its output is a reply, and
//! everything else runs on timers. The HTTP server, the data path and the control endpoint are a thin shell around it.

pub mod balancer;
pub mod clock;
pub mod command;
pub mod compute;
pub mod control;
pub mod events;
pub mod faults;
pub mod identity;
mod image;
pub mod invariants;
pub mod limits;
mod listing;
pub mod network;
pub mod octavia;
mod outgoing;
pub mod record;
pub mod script;
mod server;
pub mod settings;
#[cfg(test)]
mod tests;
mod volume;
pub mod wire;
pub mod world;

use std::{io, net::Ipv4Addr};

use ipnet::Ipv4Net;
use thiserror::Error;

pub use self::{
    balancer::DataPath,
    command::{Command, CommandError, SetServer, SetStatus},
    compute::ServerRule,
    control::Control,
    events::Event,
    faults::{CallMatch, Fault},
    invariants::{Finding, Leftover},
    limits::{Quota, RateLimit},
    octavia::{
        Hold, OperationRule,
        change::{Anomaly, Stage},
        status::{Operating, Provisioning},
    },
    record::Call,
    settings::{AssumedHealth, Durations, Options},
    wire::Service,
};
use self::{server::Shared, world::World};

/// Why a cloud could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address could not be listened on.
    #[error("can't listen on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The script could not be read.
    #[error("can't read the script {path}: {source}")]
    Script {
        /// The file.
        path: std::path::PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A command of the script is invalid.
    #[error("script {path}: {source}")]
    Command {
        /// The file.
        path: std::path::PathBuf,
        /// The reason.
        source: CommandError,
    },
}

/// A running cloud. It stops when dropped.
#[derive(Debug)]
pub struct FakeCloud {
    control: Control,
}

impl FakeCloud {
    /// Starts a cloud on the current tokio runtime.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let address = options.listen;
        let failed = |source| StartError::Listen { address, source };
        let listener = tokio::net::TcpListener::bind(address)
            .await
            .map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let floating = options
            .floating_range
            .unwrap_or_else(|| floating_range(address.port()));
        let world = World::new(&options, floating, rand::random(), jiff::Timestamp::now());
        let shared = Shared::new(world, format!("http://{address}"), options.haproxy);
        let control = Control { shared };
        if let Some(path) = options.script {
            let text =
                tokio::fs::read_to_string(&path)
                    .await
                    .map_err(|source| StartError::Script {
                        path: path.clone(),
                        source,
                    })?;
            let run = script::parse(&text).and_then(|commands| {
                commands
                    .into_iter()
                    .try_for_each(|command| control.command(command).map(|_| ()))
            });
            run.map_err(|source| StartError::Command { path, source })?;
        }
        let shared = &control.shared;
        shared.tasks.spawn(balancer::supervise(
            shared.clone(),
            shared.events.subscribe(),
        ));
        shared.tasks.spawn(server::keep_time(shared.clone()));
        shared.tasks.spawn(server::accept(shared.clone(), listener));
        Ok(Self { control })
    }

    /// The handle on it.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The base address of all services: `http://127.0.0.1:PORT`.
    pub fn base(&self) -> &str {
        self.control.base()
    }

    /// The identity endpoint, for `auth_url`.
    pub fn auth_url(&self) -> String {
        format!("{}/identity/v3", self.base())
    }

    /// A clouds.yaml with the clouds `demo` and `admin`.
    pub fn clouds_yaml(&self) -> String {
        clouds_yaml(self.base())
    }

    /// Stops and waits until every connection is closed.
    pub async fn shutdown(self) {
        self.control.shared.stop.cancel();
        self.control.shared.tasks.close();
        self.control.shared.tasks.wait().await;
    }
}

impl Drop for FakeCloud {
    fn drop(&mut self) {
        self.control.shared.stop.cancel();
    }
}

/// A clouds.yaml with the clouds `demo` (a project member) and `admin`.
pub fn clouds_yaml(base: &str) -> String {
    let cloud = |name: &str| {
        format!(
            "  {name}:\n    auth:\n      auth_url: {base}/identity/v3\n      username: {name}\n      password: secret\n      project_name: {name}\n      user_domain_name: Default\n      project_domain_name: Default\n    region_name: RegionOne\n    interface: public\n    identity_api_version: 3\n"
        )
    };
    format!("clouds:\n{}{}", cloud("demo"), cloud("admin"))
}

/// A separate range in 127.0.0.0/8 for each listening port: 127.128.0.0/9 in pieces of 128 addresses.
fn floating_range(port: u16) -> Ipv4Net {
    let start = u32::from(Ipv4Addr::new(127, 128, 0, 0)) + u32::from(port) * 128;
    Ipv4Net::new(Ipv4Addr::from(start), 25).unwrap_or_default()
}
