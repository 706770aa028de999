//! Machines and servers against a real kube-apiserver and a fake OpenStack.

mod gates;
mod images;
mod servers;
pub(crate) mod stage;
