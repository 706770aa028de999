//! Our deletion hooks on control-plane Machines: which ones a Machine carries and should carry, and the only
//! places that write them.
//!
//! The pre-terminate hook is the one that holds: KubeadmControlPlane takes the API server down only when no
//! other hook of that kind is left. For Kubernetes before 1.31 it does not wait for others; there a
//! pre-drain hook holds as well, with the same question. Cluster API passes over pre-drain hooks where the
//! Machine has no Node or no other control-plane Machine stays, so the first hook is never left out.

mod change;
mod orphaned;
mod release_all;

pub(crate) use change::{HookChange, apply};
pub(crate) use orphaned::release_orphaned;
pub use release_all::{Released, release_all};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::capi::{Machine, has_annotation};

/// While it is there, a deletion waits before the control plane provider takes the API server down.
pub const PRE_TERMINATE: &str =
    "pre-terminate.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member";
/// While it is there, a deletion waits before the Node is drained.
pub const PRE_DRAIN: &str =
    "pre-drain.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member";
/// The hooks' value: names their owner. Whatever stands there, the hook is ours by its key.
const OWNER: &str = "capo-rs";
/// KubeadmControlPlane waits for other pre-terminate hooks from this version of Kubernetes on.
const WAITED_FOR: (u64, u64) = (1, 31);

/// Which of our hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hooks {
    /// [`PRE_DRAIN`]
    pub pre_drain: bool,
    /// [`PRE_TERMINATE`]
    pub pre_terminate: bool,
}

impl Hooks {
    /// Those that an object carries.
    pub fn on(metadata: &ObjectMeta) -> Self {
        Self {
            pre_drain: has_annotation(metadata, PRE_DRAIN),
            pre_terminate: has_annotation(metadata, PRE_TERMINATE),
        }
    }

    /// Those that hold a control-plane Machine of this Kubernetes version. A version that is absent or can't be
    /// read may be an old one.
    pub fn wanted(version: Option<&str>) -> Self {
        Self {
            pre_drain: version.and_then(is_waited_for) != Some(true),
            pre_terminate: true,
        }
    }

    /// Any of them.
    pub fn any(self) -> bool {
        self.pre_drain || self.pre_terminate
    }

    /// The annotations of a merge patch after which an object that carries `before` carries these.
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

impl Machine {
    /// Its deletion has come to a point where a hook of ours holds it.
    pub fn waits_for_our_hook(&self) -> bool {
        let hooks = Hooks::on(&self.metadata);
        self.is_deleting()
            && self.condition("Deleting").is_some_and(|deleting| {
                deleting.is_true()
                    && match deleting.reason.as_str() {
                        "WaitingForPreDrainHook" => hooks.pre_drain,
                        "WaitingForPreTerminateHook" => hooks.any(),
                        _ => false,
                    }
            })
    }
}

/// Whether KubeadmControlPlane waits for other pre-terminate hooks at this version, such as `v1.31.2`. A
/// pre-release comes before its release.
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
            (both, true, "WaitingForPreDrainHook", true),
            (both, true, "DrainingNode", false),
            (both, true, "WaitingForPreTerminateHook", true),
            (both, false, "WaitingForPreTerminateHook", false),
            // Somebody else's pre-drain hook.
            (late, true, "WaitingForPreDrainHook", false),
            (late, true, "WaitingForPreTerminateHook", true),
            // The one that holds was taken off, the other one was passed over.
            (early, true, "WaitingForPreTerminateHook", true),
            (Hooks::default(), true, "WaitingForPreTerminateHook", false),
        ] {
            let machine = machine(hooks, deleting, reason);
            assert_eq!(machine.waits_for_our_hook(), expected, "{hooks:?} {reason}");
            assert_eq!(Hooks::on(&machine.metadata), hooks);
        }
    }

    #[test]
    fn a_patch_changes_only_what_differs() {
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
