//! The state of a cluster as lines of text.

use jiff::Timestamp;

use super::{
    Screen,
    layout::{Cell, Row, Table, Tone, age_since, heads, tone_of_gate, wrapped},
    member_table::members,
    view::View,
};
use crate::kubernetes::conditions::kind;
use capo_core::{ConditionStatus, GateState};

/// The width at which messages are wrapped if there is no terminal.
const WIDTH: usize = 100;

/// A section of what `status` and `watch` show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Section {
    Text(String),
    Table(Table),
}

/// The sections that show `view`. With `wide` it has everything that is known of each member.
pub(super) fn sections(view: &View, wide: bool, screen: Screen, now: Timestamp) -> Vec<Section> {
    let width = screen.width.unwrap_or(WIDTH);
    let mut sections = vec![Section::Table(top(view, now))];
    sections.push(Section::Text(String::new()));
    sections.push(Section::Table(members(view, wide, screen, now)));
    if let Some(octavia) = view
        .load_balancer
        .as_ref()
        .and_then(|lb| lb.octavia.as_ref())
    {
        let text = format!(
            "Members as Octavia reported them at {:.0}; the load balancer is {} {}",
            octavia.time, octavia.provisioning_status, octavia.operating_status
        );
        sections.extend(wrapped(&text, width, "").into_iter().map(Section::Text));
    }
    let waiting = waiting(view, width);
    if !waiting.is_empty() {
        sections.push(Section::Text(String::new()));
        sections.extend(waiting.into_iter().map(Section::Text));
    }
    if !view.conditions.is_empty() {
        sections.push(Section::Text(String::new()));
        sections.push(Section::Table(conditions(view, now)));
    }
    if !view.events.is_empty() {
        sections.push(Section::Text(String::new()));
        sections.push(Section::Table(events(view, now)));
    }
    sections
}

/// The lines of these sections.
pub(super) fn lines(sections: &[Section], screen: Screen) -> Vec<String> {
    sections
        .iter()
        .flat_map(|section| match section {
            Section::Text(text) => vec![text.clone()],
            Section::Table(table) => table.lines(screen.width, screen.colour),
        })
        .collect()
}

fn top(view: &View, now: Timestamp) -> Table {
    let state = match (view.deleting, view.paused) {
        (true, _) => " (deleting)",
        (_, true) => " (paused)",
        _ => "",
    };
    let balancer = view.load_balancer.as_ref();
    let gate = &view.gate;
    let cells = vec![
        Cell::plain(format!("{}{state}", view.cluster)),
        Cell::plain(view.endpoint.clone().unwrap_or_else(|| "-".to_owned())),
        Cell::plain(
            balancer
                .and_then(|balancer| balancer.active_members.clone())
                .unwrap_or_else(|| "-".to_owned()),
        ),
        Cell::new(gate.state.as_str(), tone_of_gate(gate.state)),
        Cell::age(age_since(now, gate.since)),
        Cell::plain(gate.reason.clone()),
    ];
    Table {
        head: heads(&["CLUSTER", "ENDPOINT", "MEMBERS", "GATE", "SINCE", "REASON"]),
        rows: vec![Row {
            key: "cluster".to_owned(),
            cells,
        }],
    }
}

/// The gates that are not open, with their reasons, and the command that explains the cluster's reason.
fn waiting(view: &View, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |subject: &str, reason: &str, message: &str| {
        lines.extend(wrapped(&format!("{subject}: {reason}"), width, ""));
        lines.extend(wrapped(message, width, "  "));
    };
    if view.gate.name.is_none() && view.gate.state != GateState::Open {
        add("Load balancer", &view.gate.reason, &view.gate.message);
    }
    let control_plane = view.machines.iter().filter(|machine| machine.control_plane);
    for machine in control_plane {
        if let Some(gate) = machine
            .gate
            .as_ref()
            .filter(|gate| gate.state != GateState::Open)
        {
            let subject = format!("{}, {}", machine.name, gate.name.unwrap_or_default());
            add(&subject, &gate.reason, &gate.message);
        }
        if let Some(operator) = &machine.operator {
            add(&machine.name, "operator's annotation", operator);
        }
    }
    if let Some(operator) = &view.operator {
        add(&view.openstack_cluster, "operator's annotation", operator);
    }
    if view.gate.state != GateState::Open {
        lines.push(format!("Read more: capo-rs explain {}", view.gate.reason));
    }
    lines
}

fn conditions(view: &View, now: Timestamp) -> Table {
    let rows = view.conditions.iter().map(|condition| {
        let status = ConditionStatus::from(condition.status.as_str());
        let tone = match (condition.r#type.as_str(), status) {
            (kind::PAUSED, ConditionStatus::False) | (_, ConditionStatus::True) => Tone::Good,
            (_, ConditionStatus::False) => Tone::Waiting,
            (_, ConditionStatus::Unknown) => Tone::Faint,
        };
        Row {
            key: condition.r#type.clone(),
            cells: vec![
                Cell::plain(&condition.r#type),
                Cell::new(&condition.status, tone),
                Cell::age(age_since(now, Some(condition.since))),
                Cell::plain(&condition.reason),
            ],
        }
    });
    Table {
        head: heads(&["CONDITION", "STATUS", "SINCE", "REASON"]),
        rows: rows.collect(),
    }
}

fn events(view: &View, now: Timestamp) -> Table {
    let rows = view.events.iter().map(|event| {
        let tone = if event.r#type == "Warning" {
            Tone::Waiting
        } else {
            Tone::Plain
        };
        let note = if event.count > 1 {
            format!("{} (x{})", event.note, event.count)
        } else {
            event.note.clone()
        };
        let object = event.object.rsplit('/').next().unwrap_or_default();
        Row {
            key: format!("{}{}{}", event.object, event.reason, event.note),
            cells: vec![
                Cell::age(age_since(now, Some(event.time))),
                Cell::plain(object),
                Cell::new(&event.reason, tone),
                Cell::plain(note),
            ],
        }
    });
    Table {
        head: heads(&["LAST SEEN", "OBJECT", "EVENT", "NOTE"]),
        rows: rows.collect(),
    }
}
