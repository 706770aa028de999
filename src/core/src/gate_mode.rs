//! What the load balancer gate does with its findings.

use crate::label_enum;

label_enum! {
    /// The value of `--load-balancer-gate`, as it is written on the command line.
    #[derive(Default)]
    pub enum GateMode, all {
        /// The gate holds what must wait.
        #[default]
        Enforce = "enforce",
        /// The gate reports what it would hold, and holds no machine.
        Observe = "observe",
        /// There is no gate, and the deletion hooks of capo-rs are removed.
        Off = "off",
    }
}

impl std::fmt::Display for GateMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is no gate mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a gate mode; allowed are enforce, observe and off")]
pub struct UnknownGateMode(String);

impl std::str::FromStr for GateMode {
    type Err = UnknownGateMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        found.ok_or_else(|| UnknownGateMode(text.to_owned()))
    }
}
