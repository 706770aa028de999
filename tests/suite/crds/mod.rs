//! The custom resource definitions on a real kube-apiserver.

mod cases;
