//! Tests of the whole program: the manager as a process with its shipped rights and webhooks, a real kube-apiserver,
//! Cluster API as a script, OpenStack as a fake.

mod connections;
mod done;
mod faults;
pub(crate) mod isolated;
mod moved;
mod others;
mod reach;
mod restarts;
mod rights;
