//! Decides which control-plane machine gets the API server's floating IP. The functions are pure.

use capo_core::{ObjectName, ids::ServerId};
use capo_gate::floating_ip::{ApiServer, ControlPlaneMachine, Holder};

/// What to do about the floating IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MovePlan {
    /// The floating IP stays where it is.
    Stay,
    /// The floating IP is put on a machine.
    Put {
        /// The machine.
        on: ObjectName,
        /// Its server.
        server: ServerId,
    },
    /// The machine that has the floating IP is being deleted or down, and no other machine can take it.
    NoReceiver {
        /// The machine that it is on.
        on: ObjectName,
    },
    /// The floating IP is on no machine, and none can take it yet.
    Await,
    /// The floating IP is on a port that is not a control-plane machine's, such as that of kube-vip. The user manages
    /// it.
    LeaveAlone,
}

/// Decides what to do about the floating IP. It is moved from a machine that is being deleted only to one whose API
/// server serves, and from a machine whose server is down also to one whose API server may serve.
pub(crate) fn plan(holder: &Holder, machines: &[ControlPlaneMachine]) -> MovePlan {
    let put = |machine: &ControlPlaneMachine| {
        Some(MovePlan::Put {
            on: machine.name.clone(),
            server: machine.server.clone()?,
        })
    };
    match holder {
        Holder::Other => MovePlan::LeaveAlone,
        Holder::Free => receiver(machines, ApiServer::Down)
            .and_then(put)
            .unwrap_or(MovePlan::Await),
        Holder::Machine(on) => {
            let present = machines.iter().find(|machine| machine.name == *on);
            let least = match present {
                Some(present) if present.is_down => ApiServer::Unknown,
                Some(present) if present.is_leaving() => ApiServer::Serving,
                _ => return MovePlan::Stay,
            };
            let others: Vec<ControlPlaneMachine> = machines
                .iter()
                .filter(|machine| machine.name != *on)
                .cloned()
                .collect();
            receiver(&others, least)
                .and_then(put)
                .unwrap_or_else(|| MovePlan::NoReceiver { on: on.clone() })
        }
    }
}

/// The machine that gets the floating IP. Only machines that are not being deleted and whose server is ACTIVE are
/// considered. The one whose API server is in the best state is chosen, and the oldest of several.
fn receiver(machines: &[ControlPlaneMachine], least: ApiServer) -> Option<&ControlPlaneMachine> {
    machines
        .iter()
        .filter(|machine| machine.is_active && !machine.is_leaving() && machine.server.is_some())
        .filter(|machine| machine.api_server >= least)
        .min_by(|a, b| {
            b.api_server
                .cmp(&a.api_server)
                .then(a.created.cmp(&b.created))
                .then(a.name.cmp(&b.name))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use capo_core::GateOverride;
    use capo_gate::floating_ip::MachineDeletion;
    use jiff::Timestamp;

    fn machine(name: &str, api_server: ApiServer) -> ControlPlaneMachine {
        ControlPlaneMachine {
            name: ObjectName::new("ns", name),
            server: Some(format!("server-of-{name}").into()),
            addresses: Vec::new(),
            created: None,
            deletion: MachineDeletion::No,
            is_active: true,
            is_down: false,
            api_server,
            gate_override: GateOverride::None,
        }
    }

    fn leaving(name: &str, api_server: ApiServer) -> ControlPlaneMachine {
        ControlPlaneMachine {
            deletion: MachineDeletion::Since(Timestamp::UNIX_EPOCH),
            ..machine(name, api_server)
        }
    }

    fn put(name: &str) -> MovePlan {
        MovePlan::Put {
            on: ObjectName::new("ns", name),
            server: format!("server-of-{name}").into(),
        }
    }

    fn on(name: &str) -> Holder {
        Holder::Machine(ObjectName::new("ns", name))
    }

    #[test]
    fn it_leaves_a_machine_only_for_one_that_serves() {
        use ApiServer::{Down, Serving, Unknown};
        let stuck = |name: &str| MovePlan::NoReceiver {
            on: ObjectName::new("ns", name),
        };
        let inactive = |machine: ControlPlaneMachine| ControlPlaneMachine {
            is_active: false,
            ..machine
        };
        let down = |machine: ControlPlaneMachine| ControlPlaneMachine {
            is_active: false,
            is_down: true,
            ..machine
        };
        let cases = [
            ("no machine", Holder::Free, vec![], MovePlan::Await),
            (
                "the first machine, before kubeadm has run",
                Holder::Free,
                vec![machine("a", Unknown)],
                put("a"),
            ),
            (
                "not ACTIVE yet",
                Holder::Free,
                vec![inactive(machine("a", Unknown))],
                MovePlan::Await,
            ),
            (
                "one that serves before an older one that does not",
                Holder::Free,
                vec![machine("a", Unknown), machine("b", Serving)],
                put("b"),
            ),
            (
                "not one that leaves",
                Holder::Free,
                vec![leaving("a", Serving), machine("b", Down)],
                put("b"),
            ),
            (
                "a machine that stays keeps it",
                on("a"),
                vec![machine("a", Down), machine("b", Serving)],
                MovePlan::Stay,
            ),
            (
                "one that leaves gives it to one that serves",
                on("a"),
                vec![
                    leaving("a", Serving),
                    machine("b", Unknown),
                    machine("c", Serving),
                ],
                put("c"),
            ),
            (
                "a newcomer is not good enough",
                on("a"),
                vec![leaving("a", Serving), machine("b", Unknown)],
                stuck("a"),
            ),
            (
                "not from one that leaves to another one that leaves",
                on("a"),
                vec![leaving("a", Serving), leaving("b", Serving)],
                stuck("a"),
            ),
            (
                "the only machine keeps it",
                on("a"),
                vec![leaving("a", Serving)],
                stuck("a"),
            ),
            (
                "a server that is gone",
                on("a"),
                vec![down(machine("a", Serving)), machine("b", Unknown)],
                put("b"),
            ),
            (
                "an object that is not in the cache",
                on("z"),
                vec![machine("a", Serving)],
                MovePlan::Stay,
            ),
            (
                "a port that is not of this cluster",
                Holder::Other,
                vec![machine("a", Serving)],
                MovePlan::LeaveAlone,
            ),
        ];
        for (what, holder, machines, expected) in cases {
            assert_eq!(plan(&holder, &machines), expected, "{what}");
        }
    }

    #[test]
    fn of_several_that_serve_the_oldest_gets_it() {
        let at = |name: &str, second: i64| ControlPlaneMachine {
            created: Timestamp::from_second(second).ok(),
            ..machine(name, ApiServer::Serving)
        };
        let machines = [at("a", 30), at("b", 10), at("c", 20)];
        assert_eq!(plan(&Holder::Free, &machines), put("b"));
    }
}
