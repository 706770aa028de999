//! How far the deletion of a control-plane machine has come.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{super::capi::Machine, Hooks};
use capo_gate::desired::Deletion;

/// How far the deletion of a machine has come, from its `OpenStackMachine`, its `OpenStackServer` and its Machine. An
/// `OpenStackServer` that is deleted alone counts too, because its deletion also ends the API server.
pub(crate) fn deletion(
    ours: &ObjectMeta,
    server: Option<&ObjectMeta>,
    machine: Option<&Machine>,
) -> Deletion {
    let out_of_band = deleted_at(ours)
        .or_else(|| deleted_at(server?))
        .map(|since| Deletion::OutOfBand { since });
    let Some((machine, since)) =
        machine.and_then(|machine| Some((machine, deleted_at(&machine.metadata)?)))
    else {
        return out_of_band.unwrap_or(Deletion::No);
    };
    if !Hooks::on(&machine.metadata).any() {
        match out_of_band {
            Some(_) => Deletion::Unhooked { since },
            None => Deletion::AfterHook { since },
        }
    } else if machine.held_at().is_some() {
        Deletion::AtHook { since }
    } else {
        out_of_band.unwrap_or(Deletion::BeforeHook { since })
    }
}

fn deleted_at(metadata: &ObjectMeta) -> Option<Timestamp> {
    metadata.deletion_timestamp.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::PRE_TERMINATE;
    use super::*;

    fn machine(deleting: bool, hooked: bool, at_hook: bool) -> Machine {
        let mut value = json!({"metadata": {"name": "m", "annotations": {}}, "status": {}});
        if deleting {
            value["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:00:00Z");
        }
        if hooked {
            value["metadata"]["annotations"][PRE_TERMINATE] = json!("capo-rs");
        }
        if at_hook {
            value["status"]["conditions"] = json!([{"type": "Deleting", "status": "True",
                "reason": "WaitingForPreTerminateHook", "message": "", "lastTransitionTime": "2026-11-21T10:01:00Z"}]);
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn deletion_step_by_step() {
        let alive = ObjectMeta::default();
        let gone: ObjectMeta =
            serde_json::from_value(json!({"deletionTimestamp": "2026-11-21T11:00:00Z"})).unwrap();
        let since: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
        let ours: Timestamp = "2026-11-21T11:00:00Z".parse().unwrap();
        let cases = [
            (&alive, Some(machine(false, true, false)), Deletion::No),
            (&alive, None, Deletion::No),
            (
                &alive,
                Some(machine(true, true, false)),
                Deletion::BeforeHook { since },
            ),
            (
                &alive,
                Some(machine(true, true, true)),
                Deletion::AtHook { since },
            ),
            (
                &alive,
                Some(machine(true, false, true)),
                Deletion::AfterHook { since },
            ),
            (
                &gone,
                Some(machine(true, false, false)),
                Deletion::Unhooked { since },
            ),
            (
                &gone,
                Some(machine(true, true, true)),
                Deletion::AtHook { since },
            ),
            (
                &gone,
                Some(machine(true, true, false)),
                Deletion::OutOfBand { since: ours },
            ),
            (
                &gone,
                Some(machine(false, true, false)),
                Deletion::OutOfBand { since: ours },
            ),
            (&gone, None, Deletion::OutOfBand { since: ours }),
        ];
        for (metadata, machine, expected) in cases {
            assert_eq!(
                deletion(metadata, None, machine.as_ref()),
                expected,
                "{machine:?}"
            );
        }
    }

    #[test]
    fn a_servers_object_deleted_alone_is_out_of_band() {
        let gone: ObjectMeta =
            serde_json::from_value(json!({"deletionTimestamp": "2026-11-21T11:00:00Z"})).unwrap();
        let since: Timestamp = "2026-11-21T11:00:00Z".parse().unwrap();
        let machine = machine(false, true, false);
        assert_eq!(
            deletion(&ObjectMeta::default(), Some(&gone), Some(&machine)),
            Deletion::OutOfBand { since }
        );
    }
}
