//! The custom resource definitions: as committed, against CAPO's, and on a real kube-apiserver.

mod cases;
mod committed;
mod facts;
mod full;
