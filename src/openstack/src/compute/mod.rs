//! Nova: servers, flavors, availability zones, server groups.

mod calls;
mod types;

pub use types::{
    AttachedVolume, AvailabilityZone, BlockDevice, Flavor, NewServer, Server, ServerAddress,
    ServerFault, ServerFilter, ServerGroup, ServerStatus,
};
