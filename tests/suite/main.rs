//! Everything that `make test` runs beyond unit tests: wire, contract, real kube-apiserver.
