//! Nova: servers, flavors, server groups, availability zones. Its quotas are in [`crate::Quota`].

mod calls;
mod types;

pub use types::{
    AddressKind, AvailabilityZone, BlockDevice, Flavor, NewServer, Server, ServerAddress,
    ServerFault, ServerFilter, ServerGroup, ServerStatus, TaskState,
};
