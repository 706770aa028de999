//! The fake cloud configures HAProxy as Octavia's own templates do.

use std::{net::IpAddr, path::Path, process::Stdio};

use fake_cloud::{
    balancer::haproxy::configuration,
    octavia::{AppliedListener, AppliedMember, AppliedMonitor, AppliedPool},
};
use tokio::{io::AsyncWriteExt as _, process::Command};

use super::variable;

const ADDRESS: &str = "127.9.9.9";

/// Lines of Octavia's templates that do not affect which member gets a connection: users, logs, limits of connections,
/// the socket of its own agent, the splicing of bytes.
const IMMATERIAL: [&str; 11] = [
    "#",
    "daemon",
    "user ",
    "log ",
    "no log",
    "log-format ",
    "maxconn ",
    "fullconn ",
    "stats socket ",
    "option splice-",
    "option http-keep-alive",
];

/// The material lines. Those of a section are sorted, because most of their order means nothing.
fn material(text: &str) -> Vec<Vec<String>> {
    let mut sections: Vec<Vec<String>> = Vec::new();
    for line in text.lines() {
        let is_heading = line.starts_with(char::is_alphabetic);
        let line = line.trim();
        if line.is_empty() || IMMATERIAL.iter().any(|begin| line.starts_with(begin)) {
            continue;
        }
        if is_heading {
            sections.push(Vec::new());
        }
        if let Some(section) = sections.last_mut() {
            section.push(line.to_owned());
        }
    }
    for section in &mut sections {
        // The members keep their order, because connections are given to them in turn.
        section.sort_by_key(|line| (!line.starts_with("server ")).then(|| line.clone()));
    }
    sections
}

fn member(host: u8, change: impl FnOnce(&mut AppliedMember)) -> AppliedMember {
    let address = format!("127.9.9.{host}");
    let mut member = AppliedMember {
        id: format!("member-{host}"),
        address: address.clone(),
        port: 6443,
        weight: 1,
        backup: false,
        enabled: true,
        plugged: true,
        check: (address, 6443),
    };
    change(&mut member);
    member
}

fn listener(port: u16, monitor: Option<AppliedMonitor>) -> AppliedListener {
    AppliedListener {
        id: format!("listener-{port}"),
        port,
        enabled: true,
        // Octavia restricts the clients with a security group instead.
        allowed_cidrs: Vec::new(),
        pool: Some(AppliedPool {
            id: format!("pool-{port}"),
            redispatch: true,
            weighted: true,
            monitor,
            members: vec![
                member(1, |_| ()),
                member(2, |member| member.enabled = false),
                member(3, |member| member.weight = 0),
                member(4, |member| member.backup = true),
                member(5, |member| member.check.1 = 6444),
                member(6, |member| member.check.0 = "127.9.9.60".into()),
            ],
        }),
    }
}

fn monitor(kind: &str, path: Option<&str>) -> AppliedMonitor {
    AppliedMonitor {
        kind: kind.to_owned(),
        delay: 5,
        timeout: 3,
        rise: 2,
        fall: 4,
        path: path.map(str::to_owned),
    }
}

async fn of_octavia(root: &Path, listeners: &[AppliedListener]) -> String {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/openstack/render.py"
    );
    let mut rendering = Command::new(root.join("venv/bin/python"))
        .args([script, ADDRESS])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = serde_json::to_vec(listeners).unwrap();
    let mut pipe = rendering.stdin.take().unwrap();
    pipe.write_all(&input).await.unwrap();
    drop(pipe);
    let output = rendering.wait_with_output().await.unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn haproxy_is_configured_as_by_octavia() {
    let root = variable("OPENSTACK_ENV_ROOT");
    let mut disabled = listener(9345, None);
    disabled.enabled = false;
    let listeners = [
        listener(6443, Some(monitor("HTTPS", Some("/readyz")))),
        listener(8132, Some(monitor("TCP", None))),
        listener(8443, None),
        disabled,
    ];
    let expected = of_octavia(Path::new(&root), &listeners).await;
    let states = Path::new("/states/balancer");
    let address: IpAddr = ADDRESS.parse().unwrap();
    let ours = configuration(states, &[address], &listeners);
    assert_eq!(material(&ours), material(&expected), "{ours}\n{expected}");
}
