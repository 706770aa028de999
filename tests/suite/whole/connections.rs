//! Where a manager listens and what it connects to, over a whole life of a cluster: the Deployment and the
//! NetworkPolicy of the manifests have a line for each of them. The ports differ from those of a cloud, so the services
//! behind the ports are compared.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{IpAddr, SocketAddr},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::Value;

use super::{isolated::IsolatedEnvironment, rights::whole_life};
use crate::env::apply::documents;

/// The state of a socket that listens, in `/proc/PID/net/tcp`.
const LISTENS: &str = "0A";

/// The sockets that a process has had open.
#[derive(Debug, Default)]
struct Sockets {
    listening: BTreeSet<u16>,
    /// The other ends of the connections that it has opened itself.
    connected: BTreeSet<SocketAddr>,
}

/// `0100007F:1F90` as the kernel of a little-endian machine writes 127.0.0.1:8080; an IPv6 address is four such words.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let mut bytes = Vec::new();
    for word in host.as_bytes().chunks(8) {
        let word = u32::from_str_radix(str::from_utf8(word).ok()?, 16).ok()?;
        bytes.extend(word.to_le_bytes());
    }
    let host = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(four) => IpAddr::from(four),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?).to_canonical(),
    };
    Some(SocketAddr::new(host, u16::from_str_radix(port, 16).ok()?))
}

/// Adds the sockets that the process has open at this moment. Connections that end before they are read are missed.
fn look(pid: u32, seen: &mut Sockets) {
    let inodes: BTreeSet<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| {
            let link = link.to_string_lossy().into_owned();
            Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let tables = ["tcp", "tcp6"]
        .map(|name| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default());
    let rows: Vec<(SocketAddr, SocketAddr, bool)> = tables
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .filter_map(|line| {
            let cells: Vec<&str> = line.split_whitespace().collect();
            inodes.contains(*cells.get(9)?).then_some(())?;
            Some((address(cells[1])?, address(cells[2])?, cells[3] == LISTENS))
        })
        .collect();
    let listening = rows.iter().filter(|row| row.2).map(|row| row.0.port());
    seen.listening.extend(listening);
    for (own, other, listens) in rows {
        // A connection that another process has opened has a local port at which this process listens.
        if !listens && !seen.listening.contains(&own.port()) {
            seen.connected.insert(other);
        }
    }
}

/// The ports that the shipped Deployment declares and the rules of the shipped NetworkPolicy, by name.
fn shipped() -> (BTreeMap<String, u64>, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_capo-rs"))
        .args(["manifests", "--with=networkpolicy"])
        .output()
        .unwrap();
    let all = documents(&String::from_utf8(output.stdout).unwrap()).unwrap();
    let of = |kind: &str| all.iter().find(|one| one["kind"] == kind).unwrap().clone();
    let container = of("Deployment")["spec"]["template"]["spec"]["containers"][0].clone();
    let ports = container["ports"].as_array().unwrap().iter().map(|port| {
        let number = port["containerPort"].as_u64().unwrap();
        (port["name"].as_str().unwrap().to_owned(), number)
    });
    (ports.collect(), of("NetworkPolicy")["spec"].clone())
}

#[test]
fn addresses_are_read_as_the_kernel_writes_them() {
    for (written, read) in [
        ("0100007F:1F90", "127.0.0.1:8080"),
        ("0000000000000000FFFF00000100007F:1F90", "127.0.0.1:8080"),
        ("00000000000000000000000001000000:0035", "[::1]:53"),
    ] {
        assert_eq!(address(written), Some(read.parse().unwrap()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_opens_no_port_and_no_connection_that_the_network_policy_has_no_rule_for() {
    let environment = IsolatedEnvironment::start().await;
    let mut manager = environment
        .ready_manager("manager", &["--leader-elect"])
        .await;
    let (pid, ends) = (manager.process.pid(), Arc::new(AtomicBool::new(false)));
    let watcher = thread::spawn({
        let ends = ends.clone();
        move || {
            let mut seen = Sockets::default();
            while !ends.load(Ordering::Relaxed) {
                look(pid, &mut seen);
                thread::sleep(Duration::from_millis(5));
            }
            seen
        }
    });
    let local = [manager.health_url(""), manager.metrics_url()];
    whole_life(&environment, &mut manager).await;
    ends.store(true, Ordering::Relaxed);
    let seen = watcher.join().unwrap();

    let (ports, policy) = shipped();
    let port_of = |url: &str| -> u16 {
        let url = url
            .trim_start_matches("http://")
            .trim_start_matches("https://");
        let port = url
            .split('/')
            .next()
            .and_then(|host| host.rsplit(':').next());
        port.unwrap().parse().unwrap()
    };
    let mut expected: BTreeSet<u16> = local.iter().map(|url| port_of(url)).collect();
    expected.insert(environment.webhook_port());
    assert_eq!(seen.listening, expected);
    assert_eq!(
        ports.keys().collect::<Vec<_>>(),
        ["healthz", "metrics", "webhook"]
    );
    let accepted: Vec<&str> = policy["ingress"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|rule| rule["ports"].as_array().unwrap())
        .filter_map(|port| port["port"].as_str())
        .collect();
    // The kubelet's probes come from the node, to which no policy applies.
    assert_eq!(accepted, ["webhook", "metrics"]);

    let kubernetes = port_of(&environment.kubernetes.url());
    let openstack = port_of(environment.cloud.base());
    let rules: BTreeSet<&str> = seen
        .connected
        .iter()
        .map(|other| match other.port() {
            port if port == kubernetes => "this Kubernetes API",
            port if port == openstack => "OpenStack",
            6443 => "a workload cluster's Kubernetes API",
            _ => panic!("the manager connects to {other}, for which the policy has no rule"),
        })
        .collect();
    assert!(rules.contains("this Kubernetes API"), "{seen:?}");
    assert!(rules.contains("OpenStack"), "{seen:?}");
    assert_eq!(
        policy["egress"].as_array().unwrap().len(),
        3,
        "DNS, Kubernetes, OpenStack"
    );
}
