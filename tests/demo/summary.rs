//! What came of it, computed from what was recorded: the watch of the machines on one side, the
//! cloud's own history and its record of calls on the other.

use std::{collections::BTreeMap, fmt};

use crate::{
    CLUSTER,
    cloud::{DemoCloud, History},
    env::Error,
    record::Moment,
};

/// The result of a run.
pub(crate) struct Summary {
    machines: Vec<Machine>,
    calls: BTreeMap<String, u64>,
    leftovers: Vec<String>,
    violations: Vec<String>,
}

struct Machine {
    name: String,
    held: f64,
    reasons: Vec<String>,
    member: Vec<String>,
}

impl Summary {
    /// Judges a run of these machines.
    pub(crate) fn of(
        moments: &BTreeMap<String, Vec<Moment>>,
        cloud: &DemoCloud,
        machines: &[&str],
    ) -> Result<Self, Error> {
        let truth = cloud.truth();
        let reads = cloud.tree_reads();
        let mut judged = Vec::new();
        let mut violations = Vec::new();
        for &name in machines {
            let seen = moments
                .get(name)
                .ok_or_else(|| format!("{name} was never seen"))?;
            let histories: Vec<&History> = truth
                .iter()
                .filter(|(member, _)| member.ends_with(name))
                .map(|(_, history)| history)
                .collect();
            let released = seen
                .iter()
                .find(|moment| moment.provisioned)
                .map(|moment| cloud.clock(moment.at));
            match released {
                None => violations.push(format!("{name} was never released")),
                Some(released) => violations.extend(broken(name, released, &histories, &reads)),
            }
            let first_hold = seen
                .iter()
                .find(|moment| moment.gate.is_some())
                .map_or(0.0, |moment| cloud.clock(moment.at));
            let mut reasons: Vec<String> = Vec::new();
            for moment in seen.iter().take_while(|moment| !moment.provisioned) {
                if let Some((_, reason, _)) = &moment.gate
                    && reasons.last() != Some(reason)
                {
                    reasons.push(reason.clone());
                }
            }
            judged.push(Machine {
                name: name.to_owned(),
                held: released.unwrap_or(f64::NAN) - first_hold,
                reasons,
                member: histories
                    .iter()
                    .flat_map(|history| history.iter().map(|(_, status)| status.clone()))
                    .collect(),
            });
        }
        let leftovers = cloud.leftovers(CLUSTER);
        violations.extend(leftovers.iter().map(|left| format!("left behind: {left}")));
        Ok(Self {
            machines: judged,
            calls: cloud.calls(),
            leftovers,
            violations,
        })
    }

    /// Whether nothing was broken.
    pub(crate) fn kept_the_promise(&self) -> bool {
        self.violations.is_empty()
    }
}

/// A machine may be released only when, for every port, its member was ACTIVE and a status tree was read
/// while it was: the read began after the member turned ACTIVE and ended before the release was seen.
fn broken(name: &str, released: f64, histories: &[&History], reads: &[(f64, f64)]) -> Vec<String> {
    if histories.is_empty() {
        return vec![format!("{name} was released without a member")];
    }
    histories
        .iter()
        .filter_map(|history| {
            let before = history.iter().rev().find(|(at, _)| *at <= released);
            let Some((since, status)) = before else {
                return Some(format!("{name} was released before its member existed"));
            };
            if status != "ACTIVE" {
                return Some(format!("{name} was released while its member was {status}"));
            }
            // The history is written every 20 ms.
            let read = reads
                .iter()
                .any(|(begun, ended)| *ended >= since - 0.02 && *begun <= released);
            (!read).then(|| format!("{name} was released before its member was read ACTIVE"))
        })
        .collect()
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Summary")?;
        for machine in &self.machines {
            writeln!(
                f,
                "  {:<10} held {:>5.1} s  {}  (member: {})",
                machine.name,
                machine.held,
                machine.reasons.join(" > "),
                machine.member.join(" > "),
            )?;
        }
        let calls: Vec<String> = self
            .calls
            .iter()
            .map(|(service, count)| format!("{service} {count}"))
            .collect();
        writeln!(
            f,
            "  OpenStack calls: {} ({})",
            self.calls.values().sum::<u64>(),
            calls.join(", ")
        )?;
        writeln!(f, "  Left behind after deletion: {}", self.leftovers.len())?;
        for violation in &self.violations {
            writeln!(f, "  VIOLATION {violation}")?;
        }
        write!(f, "  violations: {}", self.violations.len())
    }
}
