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
