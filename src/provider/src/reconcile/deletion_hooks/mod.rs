//! The deletion hooks of capo-rs on control-plane Machines. This module determines which hooks a Machine has and should
//! have, and contains the only code that writes them.
//!
//! The pre-terminate hook holds the deletion: KubeadmControlPlane takes the API server down only when no other hook of
//! that kind is left. Before Kubernetes 1.31 it does not wait for other hooks, so for these versions a pre-drain
//! hook holds the deletion as well, by the same decision. Cluster API ignores pre-drain hooks if the Machine has no
//! Node or no other control-plane Machine remains, so the pre-terminate hook is always set too.

mod change;
mod orphaned;
mod progress;
mod release_all;

pub(crate) use change::{HookChange, apply};
pub(crate) use orphaned::{holding_machine, release_orphaned};
pub(crate) use progress::deletion;
pub use release_all::{Released, release_all};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::capi::{Machine, condition::DELETING, has_annotation};

/// While this hook is set, a deletion waits before the control plane provider takes the API server down.
pub const PRE_TERMINATE: &str =
    "pre-terminate.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member";
/// While this hook is set, a deletion waits before the Node is drained.
pub const PRE_DRAIN: &str =
    "pre-drain.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member";
/// The value of the hooks, which names their owner. The key alone identifies the hook.
const OWNER: &str = "capo-rs";
/// The first version of Kubernetes for which KubeadmControlPlane waits for other pre-terminate hooks.
const WAITED_FOR: (u64, u64) = (1, 31);

/// Which of the two hooks an object has or should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hooks {
    /// [`PRE_DRAIN`]
    pub pre_drain: bool,
    /// [`PRE_TERMINATE`]
    pub pre_terminate: bool,
}

impl Hooks {
    /// The hooks that an object has.
    pub fn on(metadata: &ObjectMeta) -> Self {
        Self {
            pre_drain: has_annotation(metadata, PRE_DRAIN),
            pre_terminate: has_annotation(metadata, PRE_TERMINATE),
        }
    }

    /// The hooks that hold a control-plane Machine of this Kubernetes version. A version that is absent or can't be
    /// read is treated as an old one.
    pub fn wanted(version: Option<&str>) -> Self {
        Self {
            pre_drain: version.and_then(is_waited_for) != Some(true),
            pre_terminate: true,
        }
    }

    /// Whether the object has one of the hooks.
    pub fn any(self) -> bool {
        self.pre_drain || self.pre_terminate
    }

    /// The annotations of a merge patch that changes the hooks from `before` to these.
    pub fn patch(self, before: Self) -> Value {
        let mut annotations = Map::new();
        for (key, wanted, carried) in [
            (PRE_DRAIN, self.pre_drain, before.pre_drain),
            (PRE_TERMINATE, self.pre_terminate, before.pre_terminate),
        ] {
            if wanted && !carried {
                annotations.insert(key.to_owned(), json!(OWNER));
            } else if carried && !wanted {
                annotations.insert(key.to_owned(), Value::Null);
            }
        }
        Value::Object(annotations)
    }
}

/// The point of a Machine's deletion at which one of the two hooks holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeldAt {
    /// Before its Node is drained.
    PreDrain,
    /// After the drain, before the control plane provider takes the API server down.
    PreTerminate,
}

impl Machine {
    /// The point of the Machine's deletion at which one of the two hooks holds it; `None` if no hook holds it at the
    /// moment.
    pub fn held_at(&self) -> Option<HeldAt> {
        let hooks = Hooks::on(&self.metadata);
        let deleting = self
            .condition(DELETING)
            .filter(|deleting| self.is_deleting() && deleting.is_true())?;
        match deleting.reason.as_str() {
            "WaitingForPreDrainHook" => hooks.pre_drain.then_some(HeldAt::PreDrain),
            "WaitingForPreTerminateHook" => hooks.any().then_some(HeldAt::PreTerminate),
            _ => None,
        }
    }
}

/// Whether KubeadmControlPlane waits for other pre-terminate hooks at this version, such as `v1.31.2`. A pre-release
/// counts as older than its release. `None` means that the version can't be parsed.
fn is_waited_for(version: &str) -> Option<bool> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let without_build = version.split('+').next()?;
    let (numbers, pre_release) = match without_build.split_once('-') {
        Some((numbers, _)) => (numbers, true),
        None => (without_build, false),
    };
    let mut numbers = numbers.split('.').map(str::parse::<u64>);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let patch = numbers.next().map_or(Some(0), Result::ok)?;
    let before = pre_release && patch == 0 && (major, minor) == WAITED_FOR;
    Some((major, minor) >= WAITED_FOR && !before)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn before_1_31_both_hooks_hold() {
        for (version, pre_drain) in [
            (Some("v1.34.4"), false),
            (Some("v1.31.0"), false),
            (Some("1.31"), false),
            (Some("v1.31.1-rc.0"), false),
            (Some("v1.31.0+build-7"), false),
            (Some("v2.0.0"), false),
            (Some("v1.31.0-rc.1"), true),
            (Some("v1.30.14"), true),
            (Some("v1.9.0"), true),
            (Some("latest"), true),
            (Some("v1"), true),
            (Some(""), true),
            (None, true),
        ] {
            let hooks = Hooks::wanted(version);
            assert!(hooks.pre_terminate, "{version:?}");
            assert_eq!(hooks.pre_drain, pre_drain, "{version:?}");
        }
    }

    fn machine(hooks: Hooks, deleting: bool, reason: &str) -> Machine {
        let mut value = json!({
            "metadata": {"name": "m", "annotations": hooks.patch(Hooks::default())},
            "status": {"conditions": [{"type": "Deleting", "status": "True", "reason": reason, "message": "",
                "lastTransitionTime": "2026-11-21T10:01:00Z"}]},
        });
        if deleting {
            value["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:00:00Z");
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_deletion_waits_where_one_of_our_hooks_holds() {
        let both = Hooks::wanted(None);
        let late = Hooks::wanted(Some("v1.34.0"));
        let early = Hooks {
            pre_drain: true,
            pre_terminate: false,
        };
        for (hooks, deleting, reason, expected) in [
            (both, true, "WaitingForPreDrainHook", Some(HeldAt::PreDrain)),
            (both, true, "DrainingNode", None),
            (
                both,
                true,
                "WaitingForPreTerminateHook",
                Some(HeldAt::PreTerminate),
            ),
            (both, false, "WaitingForPreTerminateHook", None),
            // The pre-drain hook that holds the deletion belongs to another owner.
            (late, true, "WaitingForPreDrainHook", None),
            (
                late,
                true,
                "WaitingForPreTerminateHook",
                Some(HeldAt::PreTerminate),
            ),
            // The pre-terminate hook was removed, and Cluster API ignored the pre-drain hook.
            (
                early,
                true,
                "WaitingForPreTerminateHook",
                Some(HeldAt::PreTerminate),
            ),
            (Hooks::default(), true, "WaitingForPreTerminateHook", None),
        ] {
            let machine = machine(hooks, deleting, reason);
            assert_eq!(machine.held_at(), expected, "{hooks:?} {reason}");
            assert_eq!(Hooks::on(&machine.metadata), hooks);
        }
    }

    #[test]
    fn a_patch_has_only_the_difference() {
        let (none, both) = (Hooks::default(), Hooks::wanted(None));
        let late = Hooks::wanted(Some("v1.34.0"));
        assert_eq!(both.patch(both), json!({}));
        assert_eq!(late.patch(none), json!({PRE_TERMINATE: "capo-rs"}));
        assert_eq!(late.patch(both), json!({PRE_DRAIN: null}));
        assert_eq!(
            none.patch(both),
            json!({PRE_DRAIN: null, PRE_TERMINATE: null})
        );
    }
}
