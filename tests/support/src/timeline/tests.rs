//! Tests of the printed form.

use std::time::Duration;

use super::{
    Answered, Call, Entry, Gate, Machine, Member, MemberKey, OpenStackMachine, Sender, Slow,
    Timeline, What,
    render::{render, render_between},
};

fn at(seconds: u64, what: What) -> Entry {
    Entry {
        at: Duration::from_secs(seconds),
        what,
    }
}

fn answered(count: u32, slowest: u64) -> What {
    What::Answered(Answered {
        count,
        slowest: Duration::from_secs(slowest),
    })
}

fn member(provisioning: &str, operating: &str, taking: bool) -> What {
    What::Member(Member {
        key: MemberKey {
            port: 6443,
            machine: "c1-abcde".to_owned(),
            id: "1".to_owned(),
        },
        address: "127.1.0.7".to_owned(),
        provisioning: provisioning.to_owned(),
        operating: operating.to_owned(),
        enabled: true,
        weight: 1,
        taking,
    })
}

fn machine(provisioned: bool, reason: &str) -> What {
    What::OpenStackMachine(OpenStackMachine {
        name: "c1-abcde".to_owned(),
        provisioned,
        gate: Some(Gate {
            status: "False".to_owned(),
            reason: reason.to_owned(),
            message: "Its member is not there".to_owned(),
        }),
        ..OpenStackMachine::default()
    })
}

fn look() -> What {
    What::Call(Call {
        label: "loadbalancer_status_tree".to_owned(),
        method: "GET".to_owned(),
        path: "/status".to_owned(),
        status: Some(200),
        took: Duration::from_millis(4),
        body: serde_json::Value::Null,
        ours: true,
        octavia: true,
    })
}

fn slow(sender: Sender) -> What {
    let took = Duration::from_secs(3);
    What::Slow(Slow { sender, took })
}

fn post(status: u16) -> What {
    What::Call(Call {
        label: "loadbalancer_member_create".to_owned(),
        method: "POST".to_owned(),
        path: "/members".to_owned(),
        status: Some(status),
        took: Duration::from_millis(4),
        body: serde_json::Value::Null,
        ours: true,
        octavia: true,
    })
}

fn story() -> Vec<Entry> {
    let refused = || What::RequestFailed("no connection: connection refused".to_owned());
    vec![
        at(1, answered(20, 0)),
        at(
            1,
            What::Machine(Machine {
                name: "c1-abcde".to_owned(),
                hook: true,
                ..Machine::default()
            }),
        ),
        at(2, machine(false, "MemberMissing")),
        at(2, look()),
        at(2, look()),
        at(3, post(201)),
        at(3, member("PENDING_CREATE", "OFFLINE", false)),
        at(4, refused()),
        at(4, refused()),
        at(5, refused()),
        at(5, member("ACTIVE", "OFFLINE", true)),
        at(6, answered(20, 3)),
        at(6, slow(Sender::Client)),
        at(6, slow(Sender::Control)),
        at(6, machine(true, "MemberMissing")),
    ]
}

#[test]
fn one_line_a_change_and_only_what_changed() {
    let expected = "
    time   requests  subject                what
    1.00         20  c1-abcde               Machine created, our hook set
    2.00         20  c1-abcde               False MemberMissing: Its member is not there
    3.00         20  openstack              loadbalancer_member_create: 201  (2 reads before)
    3.00         20  c1-abcde:6443          PENDING_CREATE, OFFLINE, at 127.1.0.7
    4.00       20-3  client                 3 REQUESTS FAILED until 5.00: no connection: connection refused
    5.00       20-3  c1-abcde:6443          PENDING_CREATE > ACTIVE, takes connections
    6.00       40-3  client                 a request took 3.0 s
    6.00       40-3  control                a request to an API server itself took 3.0 s
    6.00       40-3  c1-abcde               PROVISIONED
";
    assert_eq!(format!("\n{}", render(&story())), expected);
}

#[test]
fn a_part_of_it_knows_what_was_before() {
    let part = render_between(&story(), Duration::from_secs(5), Duration::from_secs(5));
    let lines: Vec<&str> = part.lines().skip(1).collect();
    assert_eq!(lines.len(), 2, "{part}");
    assert!(lines[1].contains("PENDING_CREATE > ACTIVE"), "{part}");
}

#[test]
fn entries_come_in_the_order_of_time_whoever_wrote_first() {
    let timeline = Timeline::start();
    timeline.note_at(Duration::from_secs(2), What::Remark("second".to_owned()));
    timeline.note_at(Duration::from_secs(1), What::Remark("first".to_owned()));
    timeline.note_at(Duration::from_secs(2), What::Remark("third".to_owned()));
    let remarks: Vec<What> = timeline
        .entries()
        .into_iter()
        .map(|entry| entry.what)
        .collect();
    let remark = |text: &str| What::Remark(text.to_owned());
    assert_eq!(
        remarks,
        [remark("first"), remark("second"), remark("third")]
    );
}
