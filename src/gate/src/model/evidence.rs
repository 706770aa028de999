//! What is known of whether an API server serves, and how.

/// Whether a machine serves a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serving {
    /// It does.
    Yes(Evidence),
    /// Too early to say; more time or another read will tell.
    NotYet(Want),
    /// It does not.
    No(Lack),
}

/// How it is known to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// (a) ONLINE for long enough.
    Online,
    /// (b) `/readyz` answered 200 under the cluster's CA.
    Ready,
    /// (c) Cluster API's conditions hold for long enough.
    Conditions,
    /// On a port whose monitor tells nothing: Octavia has its member in service.
    InService,
}

/// What is waited for before it can be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// A newer read of its server.
    Server,
    /// Weight and admin state of its member.
    Detail,
    /// ONLINE for longer.
    OnlineSpan,
    /// A probe's end.
    Probe,
    /// Cluster API's conditions for longer.
    Conditions,
}

/// Why it does not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// It has no member at its address.
    NoMember,
    /// Its member is not ACTIVE.
    NotActive,
    /// Its member is admin-down.
    AdminDown,
    /// Its member has weight 0.
    Drained,
    /// Its server is not ACTIVE.
    Server,
    /// It is leaving itself.
    Leaving,
    /// There is evidence against.
    Against(Against),
    /// Its member does not read ONLINE.
    NotOnline,
    /// Nothing can tell its health.
    NoEvidence,
}

/// Evidence against an API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// `APIServerPodHealthy` is False.
    Pod,
    /// `/readyz` answered 5xx.
    NotReady,
    /// Another certificate.
    Certificate,
    /// Refused while another one could be reached.
    Refused,
}

/// Whether others serve every port in place of `leaving`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// They do; the last port's evidence.
    Serve(Evidence),
    /// On this port it is too early to say.
    NotYet(u16, Want),
    /// On this port none does.
    None(u16, Lack),
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Certainty {
    Yes,
    Maybe,
    No,
}
