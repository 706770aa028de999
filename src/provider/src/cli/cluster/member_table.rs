//! The table of the machines and their members.

use capo_core::{OperatingStatus, ProvisioningStatus};
use capo_openstack::compute::ServerStatus;
use jiff::Timestamp;

use super::{
    Screen,
    gates::GateView,
    layout::{Cell, Row, Table, Tone, age_since, heads, tone_of_gate},
    view::{MachineView, MemberView, View},
};

/// Machines with one column per port. With `wide`, or if that does not fit the screen, the table has one line per
/// member.
pub(super) fn members(view: &View, wide: bool, screen: Screen, now: Timestamp) -> Table {
    let matrix = matrix(view, now);
    if wide {
        return list(view, true, now);
    }
    if screen.width.is_some_and(|width| matrix.width() > width) {
        return list(view, false, now);
    }
    matrix
}

fn matrix(view: &View, now: Timestamp) -> Table {
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
    Table {
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

fn gate_cell(gate: &GateView) -> Cell {
    let name = gate.name.unwrap_or_default();
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
        OperatingStatus::UNKNOWN_LABEL => member.provisioning_status.clone(),
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

/// One line per member, and one line for each control-plane machine that has no member.
fn list(view: &View, wide: bool, now: Timestamp) -> Table {
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
        let no_machine = [
            Cell::new(format!("({})", member.machine), Tone::Faint),
            Cell::new("-", Tone::Faint),
            Cell::new("-", Tone::Faint),
        ];
        rows.push(member_row(
            &no_machine,
            &member.machine,
            Some(member),
            wide,
            now,
        ));
    }
    Table { head, rows }
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
