//! The difference between two states of an object, as text.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use super::{Call, Cluster, Gate, Machine, Member, OpenStackMachine};

/// Changes, joined.
#[derive(Default)]
struct Changes(Vec<String>);

impl Changes {
    fn when(&mut self, changed: bool, text: impl Into<String>) {
        if changed {
            self.0.push(text.into());
        }
    }

    /// Adds a property that became true or false.
    fn fact(&mut self, before: bool, now: bool, became: &str, ceased: &str) {
        self.when(!before && now, became);
        self.when(before && !now, ceased);
    }

    fn moved(&mut self, what: &str, before: &str, now: &str) {
        let text = match (before.is_empty(), what.is_empty()) {
            (true, true) => now.to_owned(),
            (true, false) => format!("{what} {now}"),
            (false, true) => format!("{before} > {now}"),
            (false, false) => format!("{what} {before} > {now}"),
        };
        self.when(before != now, text);
    }

    fn gate(&mut self, before: Option<&Gate>, now: Option<&Gate>) {
        let Some(now) = now else {
            self.when(before.is_some(), "no condition any more");
            return;
        };
        let same = before
            .is_some_and(|before| (&before.status, &before.reason) == (&now.status, &now.reason));
        self.when(
            !same,
            format!("{} {}: {}", now.status, now.reason, now.message),
        );
    }

    fn text(self) -> String {
        self.0.join(", ")
    }
}

pub(super) fn cluster_change(before: &Cluster, now: &Cluster) -> String {
    let mut changes = Changes::default();
    changes.fact(
        before.provisioned,
        now.provisioned,
        "provisioned",
        "NOT PROVISIONED ANY MORE",
    );
    changes.fact(
        before.initialised,
        now.initialised,
        "control plane initialised",
        "NOT INITIALISED ANY MORE",
    );
    changes.fact(
        before.going,
        now.going,
        "being deleted",
        "NOT BEING DELETED",
    );
    changes.when(before.ports != now.ports, format!("ports {:?}", now.ports));
    changes.gate(before.gate.as_ref(), now.gate.as_ref());
    changes.text()
}

pub(super) fn machine_change(before: Option<&Machine>, now: &Machine) -> String {
    let mut changes = Changes::default();
    changes.when(before.is_none(), "Machine created");
    let none = Machine::default();
    let before = before.unwrap_or(&none);
    changes.fact(before.hook, now.hook, "our hook set", "our hook gone");
    changes.fact(
        before.cleanup_hook,
        now.cleanup_hook,
        "",
        "kcp-cleanup gone",
    );
    changes.fact(before.admitted, now.admitted, "admitted", "NOT ADMITTED");
    changes.fact(before.node, now.node, "node joined", "node gone");
    changes.fact(before.deleting, now.deleting, "deleting", "");
    changes.moved("", &before.step, &now.step);
    changes.0.retain(|change| !change.is_empty());
    changes.text()
}

pub(super) fn infrastructure_change(before: &OpenStackMachine, now: &OpenStackMachine) -> String {
    let mut changes = Changes::default();
    changes.fact(
        before.provisioned,
        now.provisioned,
        "PROVISIONED",
        "provisioned wiped",
    );
    changes.fact(
        before.deleting,
        now.deleting,
        "OpenStackMachine deleting",
        "",
    );
    changes.gate(before.gate.as_ref(), now.gate.as_ref());
    changes.text()
}

pub(super) fn member_change(before: Option<&Member>, now: &Member) -> String {
    let mut changes = Changes::default();
    let nothing = (String::new(), String::new());
    let (provisioning, operating) = before.map_or(nothing, |member| {
        (member.provisioning.clone(), member.operating.clone())
    });
    changes.moved("", &provisioning, &now.provisioning);
    changes.moved("", &operating, &now.operating);
    let before_weight = before.map_or(1, |member| member.weight);
    changes.when(
        before_weight != now.weight,
        format!("weight {}", now.weight),
    );
    changes.fact(
        before.is_none_or(|member| member.enabled),
        now.enabled,
        "admin up",
        "admin down",
    );
    changes.fact(
        before.is_some_and(|member| member.taking),
        now.taking,
        "takes connections",
        "takes none any more",
    );
    let moved = before.is_some_and(|member| member.address != now.address);
    changes.when(moved || before.is_none(), format!("at {}", now.address));
    changes.text()
}

pub(super) fn call_text(call: &Call, reads: u32) -> String {
    let mut text = String::new();
    if !call.ours {
        text.push_str("(not the manager) ");
    }
    let _ = write!(text, "{}", call.label);
    if call.label.ends_with("_update") {
        let _ = write!(text, " {}", Body(&call.body));
    }
    match call.status {
        Some(status) => {
            let _ = write!(text, ": {status}");
        }
        None => text.push_str(": no answer"),
    }
    if call.took > Duration::from_secs(1) {
        let _ = write!(text, " after {:.1} s", call.took.as_secs_f64());
    }
    if reads > 0 {
        let _ = write!(text, "  ({reads} reads before)");
    }
    text
}

/// A body within a line of text.
struct Body<'a>(&'a serde_json::Value);

impl fmt::Display for Body<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.0.to_string().chars().take(80).collect();
        f.write_str(&text)
    }
}
