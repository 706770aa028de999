//! A picture as lines of text.

use capo_core::{OperatingStatus, ProvisioningStatus};
use capo_openstack::compute::ServerStatus;
use jiff::Timestamp;

use super::{
    Screen,
    gates::Gate,
    layout::{Cell, Grid, Row, Tone, wrapped},
    view::{MachineView, MemberView, View},
};
use capo_core::GateState;

/// Messages are wrapped at this width where there is no terminal.
const WIDTH: usize = 100;

/// A board: named tables between lines of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    Table(Grid),
}

/// The board of `view`, with `wide` everything that is known of each member.
pub(super) fn board(view: &View, wide: bool, screen: Screen, now: Timestamp) -> Vec<Part> {
    let width = screen.width.unwrap_or(WIDTH);
    let mut parts = vec![Part::Table(top(view, now))];
    parts.push(Part::Text(String::new()));
    parts.push(Part::Table(members(view, wide, screen, now)));
    if let Some(octavia) = view
        .load_balancer
        .as_ref()
        .and_then(|lb| lb.octavia.as_ref())
    {
        let text = format!(
            "Members as Octavia told them at {:.0}; the load balancer is {} {}",
            octavia.time, octavia.provisioning_status, octavia.operating_status
        );
        parts.extend(wrapped(&text, width, "").into_iter().map(Part::Text));
    }
    let waiting = waiting(view, width);
    if !waiting.is_empty() {
        parts.push(Part::Text(String::new()));
        parts.extend(waiting.into_iter().map(Part::Text));
    }
    if !view.conditions.is_empty() {
        parts.push(Part::Text(String::new()));
        parts.push(Part::Table(conditions(view, now)));
    }
    if !view.events.is_empty() {
        parts.push(Part::Text(String::new()));
        parts.push(Part::Table(events(view, now)));
    }
    parts
}

/// The lines of a board.
pub(super) fn lines(parts: &[Part], screen: Screen) -> Vec<String> {
    parts
        .iter()
        .flat_map(|part| match part {
            Part::Text(text) => vec![text.clone()],
            Part::Table(grid) => grid.lines(screen.width, screen.colour),
        })
        .collect()
}

fn top(view: &View, now: Timestamp) -> Grid {
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
    Grid {
        head: heads(&["CLUSTER", "ENDPOINT", "MEMBERS", "GATE", "SINCE", "REASON"]),
        rows: vec![Row {
            key: "cluster".to_owned(),
            cells,
        }],
    }
}

fn heads(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

/// Machines with a column per port; a line per member where that does not fit, or more is asked for.
fn members(view: &View, wide: bool, screen: Screen, now: Timestamp) -> Grid {
    let matrix = matrix(view, now);
    if wide {
        return list(view, true, now);
    }
    if screen.width.is_some_and(|width| matrix.width() > width) {
        return list(view, false, now);
    }
    matrix
}

fn matrix(view: &View, now: Timestamp) -> Grid {
    let machines = view.machines.iter().filter(|machine| machine.control_plane);
    let mut ports: Vec<i32> = view
        .machines
        .iter()
        .flat_map(|machine| machine.members.keys().copied())
        .collect();
    ports.sort_unstable();
    ports.dedup();
    let mut head = heads(&["MACHINE", "SERVER", "GATE", "SINCE"]);
    head.extend(ports.iter().map(|port| format!("PORT {port}")));
    let rows = machines.map(|machine| {
        let mut cells = of_machine(machine, now);
        cells.extend(
            ports
                .iter()
                .map(|port| member_cell(machine.members.get(port))),
        );
        Row {
            key: machine.name.clone(),
            cells,
        }
    });
    Grid {
        rows: rows.collect(),
        head,
    }
}

fn of_machine(machine: &MachineView, now: Timestamp) -> Vec<Cell> {
    let name = if machine.deleting {
        format!("{} (deleting)", machine.name)
    } else {
        machine.name.clone()
    };
    let (gate, since) = match &machine.gate {
        Some(gate) => (gate_cell(gate), age_since(now, gate.since)),
        None => (Cell::new("-", Tone::Faint), "-".to_owned()),
    };
    vec![
        Cell::plain(name),
        server_cell(machine.server.as_deref()),
        gate,
        Cell::age(since),
    ]
}

fn gate_cell(gate: &Gate) -> Cell {
    let name = gate.asked.unwrap_or_default();
    Cell::new(
        format!("{name} {}", gate.state.as_str()),
        tone_of_gate(gate.state),
    )
}

fn server_cell(state: Option<&str>) -> Cell {
    let Some(state) = state else {
        return Cell::new("-", Tone::Faint);
    };
    let tone = match ServerStatus::from(state) {
        ServerStatus::Active => Tone::Good,
        ServerStatus::Error => Tone::Bad,
        _ => Tone::Waiting,
    };
    Cell::new(state, tone)
}

fn member_cell(member: Option<&MemberView>) -> Cell {
    let Some(member) = member else {
        return Cell::new("-", Tone::Faint);
    };
    let text = match member.operating_status.as_str() {
        "Unknown" => member.provisioning_status.clone(),
        operating => format!("{} {operating}", member.provisioning_status),
    };
    Cell::new(text, tone_of_member(member))
}

fn tone_of_member(member: &MemberView) -> Tone {
    use OperatingStatus as Operating;
    use ProvisioningStatus as Provisioning;
    match (
        Provisioning::from(member.provisioning_status.as_str()),
        Operating::from(member.operating_status.as_str()),
    ) {
        (Provisioning::Error, _) | (_, Operating::Error) => Tone::Bad,
        (
            Provisioning::Active,
            Operating::Online | Operating::NoMonitor | Operating::Unknown(_),
        ) => Tone::Good,
        _ => Tone::Waiting,
    }
}

fn tone_of_gate(state: GateState) -> Tone {
    match state {
        GateState::Open => Tone::Good,
        GateState::Held => Tone::Waiting,
        GateState::Bypassed | GateState::Unknown => Tone::Bad,
    }
}

/// A line per member, and one for each control-plane machine without any.
fn list(view: &View, wide: bool, now: Timestamp) -> Grid {
    let mut head = heads(&[
        "MACHINE",
        "GATE",
        "PORT",
        "PROVISIONING",
        "OPERATING",
        "SINCE",
    ]);
    if wide {
        head = heads(&[
            "MACHINE",
            "SERVER",
            "GATE",
            "PORT",
            "ADDRESS",
            "PROVISIONING",
            "OPERATING",
            "SINCE",
            "MEMBER ID",
            "MESSAGE",
        ]);
    }
    let mut rows = Vec::new();
    let machines = view.machines.iter().filter(|machine| machine.control_plane);
    for machine in machines {
        let about = of_machine(machine, now);
        let members: Vec<Option<&MemberView>> = if machine.members.is_empty() {
            vec![None]
        } else {
            machine.members.values().map(Some).collect()
        };
        for member in members {
            rows.push(member_row(&about, &machine.name, member, wide, now));
        }
    }
    for member in &view.other_members {
        let nobody = [
            Cell::new(format!("({})", member.machine), Tone::Faint),
            Cell::new("-", Tone::Faint),
            Cell::new("-", Tone::Faint),
        ];
        rows.push(member_row(
            &nobody,
            &member.machine,
            Some(member),
            wide,
            now,
        ));
    }
    Grid { head, rows }
}

fn member_row(
    about: &[Cell],
    machine: &str,
    member: Option<&MemberView>,
    wide: bool,
    now: Timestamp,
) -> Row {
    let dash = || Cell::new("-", Tone::Faint);
    let tone = member.map_or(Tone::Faint, tone_of_member);
    let text = |text: Option<&str>| text.map_or_else(dash, Cell::plain);
    let port = member.map(|member| member.port.to_string());
    let provisioning =
        member.map_or_else(dash, |member| Cell::new(&member.provisioning_status, tone));
    let operating = member.map_or_else(dash, |member| Cell::new(&member.operating_status, tone));
    let since = Cell::age(age_since(now, member.and_then(|member| member.since)));
    let about = |index: usize| about.get(index).cloned().unwrap_or_else(dash);
    let mut cells = vec![about(0)];
    if wide {
        cells.push(about(1));
    }
    cells.push(about(2));
    cells.push(text(port.as_deref()));
    if wide {
        cells.push(text(member.and_then(|member| member.address.as_deref())));
    }
    cells.extend([provisioning, operating, since]);
    if wide {
        cells.push(text(member.and_then(|member| member.id.as_deref())));
        cells.push(text(member.and_then(|member| member.message.as_deref())));
    }
    Row {
        key: format!("{machine}:{}", port.unwrap_or_default()),
        cells,
    }
}

/// What is waited for, and what to read about it.
fn waiting(view: &View, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |who: &str, reason: &str, message: &str| {
        lines.extend(wrapped(&format!("{who}: {reason}"), width, ""));
        lines.extend(wrapped(message, width, "  "));
    };
    if view.gate.asked.is_none() && view.gate.state != GateState::Open {
        say("Load balancer", &view.gate.reason, &view.gate.message);
    }
    let control_plane = view.machines.iter().filter(|machine| machine.control_plane);
    for machine in control_plane {
        if let Some(gate) = machine
            .gate
            .as_ref()
            .filter(|gate| gate.state != GateState::Open)
        {
            let who = format!("{}, {}", machine.name, gate.asked.unwrap_or_default());
            say(&who, &gate.reason, &gate.message);
        }
        if let Some(operator) = &machine.operator {
            say(&machine.name, "operator's annotation", operator);
        }
    }
    if let Some(operator) = &view.operator {
        say(&view.openstack_cluster, "operator's annotation", operator);
    }
    if view.gate.state != GateState::Open {
        lines.push(format!("Read more: capo-rs explain {}", view.gate.reason));
    }
    lines
}

fn conditions(view: &View, now: Timestamp) -> Grid {
    let rows = view.conditions.iter().map(|condition| {
        let tone = match (condition.r#type.as_str(), condition.status.as_str()) {
            ("Paused", "False") | (_, "True") => Tone::Good,
            (_, "False") => Tone::Waiting,
            _ => Tone::Faint,
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
    Grid {
        head: heads(&["CONDITION", "STATUS", "SINCE", "REASON"]),
        rows: rows.collect(),
    }
}

fn events(view: &View, now: Timestamp) -> Grid {
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
    Grid {
        head: heads(&["LAST SEEN", "OBJECT", "EVENT", "NOTE"]),
        rows: rows.collect(),
    }
}

fn age_since(now: Timestamp, since: Option<Timestamp>) -> String {
    since.map_or_else(|| "-".to_owned(), |since| age(now, since))
}

/// How long ago something was, as kubectl writes it.
pub(super) fn age(now: Timestamp, since: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 != 0 => format!("{minutes}m{}s", seconds % 60),
        120..10_800 => format!("{minutes}m"),
        10_800..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}
