//! Faults of single calls: the calls that they match, and their effect.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{settings::seconds, wire::Service};

/// Whether a text matches a pattern in which `*` stands for any text.
pub fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(first) = parts.next() else {
        return false;
    };
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(place) => rest = rest.get(place + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The calls that a fault matches. A field that is left out matches every call.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallMatch {
    /// The service.
    pub service: Option<Service>,
    /// The method.
    pub method: Option<String>,
    /// The path with its service prefix, `*` for anything: `/load-balancer/v2/lbaas/pools/*/members`.
    pub path: Option<String>,
    /// The request label: `loadbalancer_member_create`, `*_delete`.
    pub label: Option<String>,
    /// The credential: user name or application credential name.
    pub credential: Option<String>,
    /// A text that the body contains.
    pub body: Option<String>,
}

/// The effect on a call that matches.
#[expect(
    clippy::struct_excessive_bools,
    reason = "a script's switches, each of its own"
)]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fault {
    /// The calls that it affects.
    #[serde(rename = "match")]
    pub matching: CallMatch,
    /// How many matching calls pass untouched first.
    pub skip: u32,
    /// The number of calls that it affects; without it, all.
    pub count: Option<u32>,
    /// Seconds until it ends; without it, the fault stays until it is removed.
    #[serde(rename = "for")]
    pub lasts: Option<f64>,
    /// Seconds to wait before the call is processed.
    pub delay: f64,
    /// Seconds to wait between the processing of the call and the answer.
    pub delay_after: f64,
    /// Whether no answer is sent.
    pub hang: bool,
    /// The status to answer with.
    pub status: Option<u16>,
    /// Extra headers of the answer.
    pub headers: BTreeMap<String, String>,
    /// The body of the answer: text, or any JSON value.
    pub body: Option<Value>,
    /// Whether the connection is reset.
    pub reset: bool,
    /// Whether the body breaks off in the middle.
    pub truncate: bool,
    /// Seconds per byte of the body, which is sent byte by byte.
    pub trickle: Option<f64>,
    /// Whether the call is carried out although the fault occurs, as if the reply were lost. With a delay, the call is
    /// carried out even if the client has gone by then.
    pub apply: bool,
}

/// The treatment of the reply to one call.
#[derive(Debug, Clone, Default)]
pub struct Treatment {
    /// Id of the fault.
    pub id: Option<u64>,
    /// The fault.
    pub fault: Fault,
}

impl Treatment {
    /// Whether the call reaches the service.
    pub fn applies(&self) -> bool {
        let replaced = self.fault.hang || self.fault.reset || self.fault.status.is_some();
        !replaced || self.fault.apply
    }
}

#[derive(Debug, Clone)]
struct Standing {
    id: u64,
    fault: Fault,
    until: Option<Duration>,
}

/// The properties of a call that a fault can match.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedCall<'a> {
    /// The service.
    pub service: Service,
    /// The method.
    pub method: &'a str,
    /// The path with its prefix.
    pub path: &'a str,
    /// The request label.
    pub label: &'a str,
    /// The credential.
    pub credential: &'a str,
    /// The body as text.
    pub body: &'a str,
}

/// All faults in force.
#[derive(Debug, Default)]
pub struct Faults {
    standing: Vec<Standing>,
    next: u64,
}

impl Faults {
    /// Adds a fault and returns its id.
    pub fn add(&mut self, fault: Fault, elapsed: Duration) -> u64 {
        self.next += 1;
        let until = fault.lasts.map(|lasts| elapsed + seconds(lasts));
        self.standing.push(Standing {
            id: self.next,
            fault,
            until,
        });
        self.next
    }

    /// Removes a fault.
    pub fn remove(&mut self, id: u64) -> bool {
        let before = self.standing.len();
        self.standing.retain(|standing| standing.id != id);
        before != self.standing.len()
    }

    /// Removes all faults.
    pub fn clear(&mut self) {
        self.standing.clear();
    }

    /// The faults in force, with their ids.
    pub fn list(&self) -> Vec<(u64, Fault)> {
        self.standing
            .iter()
            .map(|standing| (standing.id, standing.fault.clone()))
            .collect()
    }

    /// The treatment of this call. The call is counted.
    pub fn take(&mut self, call: &ReceivedCall<'_>, elapsed: Duration) -> Treatment {
        self.standing
            .retain(|standing| standing.until.is_none_or(|until| until > elapsed));
        for standing in &mut self.standing {
            let fault = &mut standing.fault;
            if fault.count == Some(0) || !fault.matching.fits(call) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            if let Some(count) = &mut fault.count {
                *count -= 1;
            }
            return Treatment {
                id: Some(standing.id),
                fault: fault.clone(),
            };
        }
        Treatment::default()
    }
}

impl CallMatch {
    fn fits(&self, call: &ReceivedCall<'_>) -> bool {
        self.service.is_none_or(|service| service == call.service)
            && self
                .method
                .as_ref()
                .is_none_or(|method| method.eq_ignore_ascii_case(call.method))
            && self.path.as_ref().is_none_or(|path| glob(path, call.path))
            && self
                .label
                .as_ref()
                .is_none_or(|label| glob(label, call.label))
            && self
                .credential
                .as_ref()
                .is_none_or(|credential| credential == call.credential)
            && self
                .body
                .as_ref()
                .is_none_or(|body| call.body.contains(body))
    }
}
