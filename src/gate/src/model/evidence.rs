//! What is known of whether an API server serves, and how.

/// Whether a machine serves a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serving {
    /// The machine serves the port.
    Yes(Evidence),
    /// It is not known yet whether the machine serves the port; more time or another read will show it.
    NotYet(Want),
    /// The machine does not serve the port.
    No(Lack),
}

/// How it is known to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// Its member is ONLINE for long enough.
    Online,
    /// No monitor reports its health, and Cluster API finds no fault with it.
    Conditions,
}

/// What has to happen before it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// A newer read of its server.
    Server,
    /// Weight and admin state of its member.
    Detail,
    /// ONLINE for longer.
    OnlineSpan,
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
    /// `APIServerPodHealthy` is False.
    Unhealthy,
    /// Its member does not read ONLINE.
    NotOnline,
    /// Nothing shows its health.
    NoEvidence,
}

/// Whether others serve every port in place of `leaving`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// Another one serves every port.
    Serve,
    /// It is not known yet for this port.
    NotYet(u16, Want),
    /// On this port no other machine serves.
    None(u16, Lack),
}

/// Whether a rule applies, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Certainty {
    Yes,
    Maybe,
    No,
}
