//! The types of the conditions of Clusters and Machines that capo-rs reads.

/// On a Machine. `KubeadmControlPlane` sets it by the state of the API server's Pod.
pub const API_SERVER_POD_HEALTHY: &str = "APIServerPodHealthy";
/// On a Cluster. It is True once the control plane has reported that it is initialised.
pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";
/// On a Machine, and also the reason of its other conditions while it is being deleted.
pub const DELETING: &str = "Deleting";
/// On a Cluster and on a Machine. It is True once the infrastructure has reported `provisioned`.
pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
/// On a Machine. It is True while the Node is healthy.
pub const NODE_HEALTHY: &str = "NodeHealthy";
/// On a Cluster. It is True while the workload cluster answers through the endpoint.
pub const REMOTE_CONNECTION_PROBE: &str = "RemoteConnectionProbe";
