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

/// How a machine is known to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// Its member has been ONLINE for long enough.
    Online,
    /// No monitor reports its health, and the conditions that Cluster API sets on its Machine show no fault.
    Conditions,
}

/// What has to be read, or to last longer, before it is known whether a machine serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// A newer read of its server.
    Server,
    /// A list that shows the weight and the admin state of its member.
    Detail,
    /// The member has to be ONLINE for longer.
    OnlineSpan,
}

/// Why a machine does not serve a port.
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
    /// The machine is being deleted itself.
    Leaving,
    /// `APIServerPodHealthy` is False.
    Unhealthy,
    /// Its member does not read ONLINE.
    NotOnline,
    /// Neither a health monitor nor a condition shows that it is healthy.
    NoEvidence,
}

/// Whether other machines serve every port in place of the machine that is leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// Another machine serves every port.
    Serve,
    /// It is not known yet whether another machine serves this port.
    NotYet(u16, Want),
    /// On this port no other machine serves.
    None(u16, Lack),
}

/// Whether a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Certainty {
    Yes,
    Maybe,
    No,
}
