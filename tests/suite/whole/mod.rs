//! The whole: the manager as a process with its shipped rights and webhooks, a real kube-apiserver, Cluster
//! API as a script, OpenStack as a fake.

mod faults;
mod restarts;
mod rights;
mod stage;
