//! Upper bounds of histograms, in seconds.

/// Waits for the request budget, from a millisecond to two minutes.
pub(super) const WAITS: &[f64] = &[
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
];
/// The time that operations of Octavia take, up to an hour.
pub(super) const SETTLING: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0,
];
/// Holds of a gate, from 10 s to 2 h.
pub(super) const HOLDS: &[f64] = &[
    10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0,
];
/// The buckets of every Prometheus client library.
pub(super) const DEFAULT: &[f64] = prometheus::DEFAULT_BUCKETS;
/// The duration of one call, up to its time-out.
pub(super) const CALLS: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// The pauses that services request.
pub(super) const PAUSES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0];
/// The buckets that controller-runtime uses for reconciliations.
pub(super) const PASSES: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];
/// The buckets that client-go uses for work queues.
pub(super) const QUEUES: &[f64] = &[
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0,
];
/// The buckets that Kubernetes uses for the requests of its clients.
pub(super) const KUBERNETES: &[f64] = &[
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];
