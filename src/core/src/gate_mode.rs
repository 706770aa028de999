//! What the load balancer gate does with its findings.

/// The value of `--load-balancer-gate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GateMode {
    /// The gate holds what must wait.
    #[default]
    Enforce,
    /// The gate reports what it would hold, and holds no machine.
    Observe,
    /// There is no gate, and the deletion hooks of capo-rs are removed.
    Off,
}

impl GateMode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Enforce, Self::Observe, Self::Off];

    /// The mode as it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Observe => "observe",
            Self::Off => "off",
        }
    }
}

impl std::fmt::Display for GateMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for GateMode {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == word)
            .ok_or_else(|| {
                format!("\"{word}\" is not a gate mode; allowed are enforce, observe and off")
            })
    }
}
