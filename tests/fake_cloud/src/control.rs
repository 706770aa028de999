//! The control endpoint below `/control`, and the typed handle with the same commands in-process.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::{
    balancer::DataPath,
    command::{Command, CommandError},
    events::Event,
    invariants::{Finding, Leftover},
    octavia::{AppliedListener, model::LoadBalancer},
    record::Call,
    server::Shared,
    wire::{Reply, Service},
};

/// A handle of a running cloud. A clone is cheap and controls the same cloud.
#[derive(Debug, Clone)]
pub struct Control {
    pub(crate) shared: Arc<Shared>,
}

impl Control {
    /// Carries out a command.
    pub fn command(&self, command: Command) -> Result<Value, CommandError> {
        self.shared.with(|world| world.command(command))
    }

    /// The same from JSON, such as a line of a script.
    pub fn run(&self, command: Value) -> Result<Value, CommandError> {
        self.command(serde_json::from_value(command)?)
    }

    /// The events from now on.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.shared.events.subscribe()
    }

    /// The calls after a sequence number, oldest first; 0 for all recorded calls.
    pub fn calls_since(&self, sequence: u64) -> Vec<Call> {
        self.shared.with(|world| world.record.since(sequence))
    }

    /// The number of the last call, for a later [`Control::calls_since`].
    pub fn last_call(&self) -> u64 {
        self.shared.with(|world| world.record.last())
    }

    /// Calls by service and label since the last reset.
    pub fn counters(&self) -> BTreeMap<(Service, String), u64> {
        self.shared.with(|world| world.record.counters().clone())
    }

    /// How many calls one service has had since the last reset.
    pub fn calls_to(&self, service: Service) -> u64 {
        let counters = self.counters();
        counters
            .iter()
            .filter(|((called, _), _)| *called == service)
            .map(|(_, count)| count)
            .sum()
    }

    /// Removes recorded calls and resets counters.
    pub fn reset_calls(&self) {
        self.shared.with(|world| world.record.reset());
    }

    /// All objects, by service and kind.
    pub fn dump(&self) -> Value {
        self.shared.with(|world| world.dump())
    }

    /// The cloud's time, and the actual rows of the load balancers of this name at that moment, each with the
    /// configuration that its data path runs.
    pub fn load_balancers(
        &self,
        name: &str,
    ) -> (Duration, Vec<(LoadBalancer, Vec<AppliedListener>)>) {
        self.shared.with(|world| {
            let found = world
                .octavia
                .balancers
                .values()
                .filter(|balancer| balancer.head.name == name)
                .map(|balancer| {
                    let applied = world.octavia.applied.get(&balancer.head.id);
                    (balancer.clone(), applied.cloned().unwrap_or_default())
                })
                .collect();
            (world.now.elapsed, found)
        })
    }

    /// Objects that exist twice under one logical key.
    pub fn duplicates(&self) -> Vec<Finding> {
        self.shared.with(|world| world.duplicates())
    }

    /// Objects whose name or tags contain a text, in the order of services and kinds.
    pub fn leftovers(&self, text: &str) -> Vec<Leftover> {
        self.shared.with(|world| world.leftovers(text))
    }

    /// The state of the data paths, by load balancer id.
    pub fn data_paths(&self) -> BTreeMap<String, DataPath> {
        self.shared.data_paths()
    }

    /// Address of the control endpoint and of all services: `http://127.0.0.1:PORT`.
    pub fn base(&self) -> &str {
        &self.shared.base
    }
}

/// One call to the control endpoint.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    method: &str,
    segments: &[String],
    query: &[(String, String)],
    body: &Bytes,
) -> Reply {
    let control = Control {
        shared: Arc::clone(shared),
    };
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let param = |name: &str| {
        query
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    };
    let number = |name: &str| {
        param(name)
            .and_then(|value| value.parse::<u64>().ok())
            .unwrap_or(0)
    };
    match (method, segments.as_slice()) {
        ("POST", []) => {
            let text = String::from_utf8_lossy(body);
            match crate::script::parse(&text) {
                Ok(commands) => {
                    let mut outcomes = Vec::new();
                    for command in commands {
                        match control.command(command) {
                            Ok(outcome) => outcomes.push(outcome),
                            Err(error) => {
                                return Reply::json(
                                    400,
                                    json!({ "error": error.to_string(), "done": outcomes }),
                                );
                            }
                        }
                    }
                    match outcomes.as_slice() {
                        [only] => Reply::json(200, only.clone()),
                        all => Reply::json(200, json!(all)),
                    }
                }
                Err(error) => Reply::json(400, json!({ "error": error.to_string() })),
            }
        }
        ("GET", ["state"]) => Reply::json(200, control.dump()),
        ("GET", ["calls"]) => {
            let label = param("label").unwrap_or("*");
            let service = param("service").and_then(Service::of_prefix);
            let calls: Vec<Call> = control
                .calls_since(number("since"))
                .into_iter()
                .filter(|call| {
                    crate::faults::glob(label, &call.label)
                        && service.is_none_or(|service| service == call.service)
                })
                .collect();
            Reply::json(200, json!({ "calls": calls, "last": control.last_call() }))
        }
        ("DELETE", ["calls"]) => {
            control.reset_calls();
            Reply::json(200, json!({}))
        }
        ("GET", ["counters"]) => {
            let mut shown: BTreeMap<&str, BTreeMap<String, u64>> = BTreeMap::new();
            for ((service, label), count) in control.counters() {
                shown
                    .entry(service.name())
                    .or_default()
                    .insert(label, count);
            }
            Reply::json(200, json!(shown))
        }
        ("GET", ["faults"]) => {
            let faults = shared.with(|world| world.faults.list());
            let shown: Vec<Value> = faults
                .into_iter()
                .map(|(id, fault)| json!({ "id": id, "fault": fault }))
                .collect();
            Reply::json(200, json!(shown))
        }
        ("GET", ["operations"]) => Reply::json(200, shared.with(|world| world.operations())),
        ("GET", ["events"]) => {
            // Waits for the next event, for at most the requested time.
            let mut events = control.events();
            let wait = crate::settings::seconds(
                param("wait")
                    .and_then(|wait| wait.parse().ok())
                    .unwrap_or(30.0),
            );
            match tokio::time::timeout(wait, events.recv()).await {
                Ok(Ok(event)) => Reply::json(200, json!([event])),
                _ => Reply::json(200, json!([])),
            }
        }
        ("GET", ["data-path"]) => Reply::json(200, json!(control.data_paths())),
        ("GET", ["duplicates"]) => Reply::json(200, json!(control.duplicates())),
        ("GET", ["leftovers"]) => Reply::json(
            200,
            json!(control.leftovers(param("text").unwrap_or_default())),
        ),
        ("GET", ["clouds.yaml"]) => Reply::text(200, "text/yaml", crate::clouds_yaml(&shared.base)),
        _ => Reply::json(
            404,
            json!({ "error": "POST /control, or GET /control/{state,calls,counters,faults,operations,events,data-path,duplicates,leftovers,clouds.yaml}, or DELETE /control/calls" }),
        ),
    }
}
