//! The data path by HAProxy, configured as Octavia's amphora agent does it: one process for each load balancer, which
//! keeps the states of its members across reloads.

use std::{
    fmt::Write as _,
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    process::{Child, Command},
};
use tokio_util::task::AbortOnDropHandle;

use crate::octavia::{AppliedListener, AppliedMember, AppliedMonitor, AppliedPool};

/// How long HAProxy may take to start or to reload its configuration.
const RELOAD: Duration = Duration::from_secs(5);
/// The pause between two reports of the checks' results.
const REPORT: Duration = Duration::from_millis(200);
/// The column of `show stat` that has the status.
const STATUS: usize = 17;
/// An address at which nothing listens. Connections to members that the amphora does not reach go there, because tests
/// must not call other hosts.
const NOWHERE: &str = "127.0.0.1:1";

/// The HAProxy of one load balancer. It ends when this is dropped.
pub(crate) struct HaProxy {
    master: Child,
    socket: Socket,
    folder: TempDir,
    config: String,
    _checks: AbortOnDropHandle<()>,
}

impl HaProxy {
    /// Starts HAProxy and returns when it listens on all these addresses. `checked` gets the result of a member's
    /// checks.
    pub(crate) async fn start(
        program: &Path,
        addresses: &[IpAddr],
        listeners: &[AppliedListener],
        checked: impl Fn(&str, bool) + Send + 'static,
    ) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("haproxy-").tempdir()?;
        let config = configuration(folder.path(), addresses, listeners);
        tokio::fs::write(folder.path().join("haproxy.cfg"), &config).await?;
        let socket = Socket(folder.path().join("master.sock"));
        // The master answers on its socket; the worker carries the connections.
        let master = Command::new(program)
            .arg("-W")
            .arg("-S")
            .arg(&socket.0)
            .arg("-f")
            .arg(folder.path().join("haproxy.cfg"))
            .env("LD_LIBRARY_PATH", program.with_file_name("lib"))
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("log"))?)
            .kill_on_drop(true)
            .spawn()?;
        let reporting = tokio::spawn(socket.clone().report_checks(checked));
        let mut started = Self {
            master,
            socket,
            folder,
            config,
            _checks: AbortOnDropHandle::new(reporting),
        };
        started.until_reloaded(0).await?;
        Ok(started)
    }

    /// Runs another configuration from now on. Established connections stay.
    pub(crate) async fn run(
        &mut self,
        addresses: &[IpAddr],
        listeners: &[AppliedListener],
    ) -> io::Result<()> {
        let config = configuration(self.folder.path(), addresses, listeners);
        if config == self.config {
            return Ok(());
        }
        tokio::fs::write(self.folder.path().join("haproxy.cfg"), &config).await?;
        let states = self.socket.send_command("@1 show servers state").await?;
        tokio::fs::write(self.folder.path().join("servers-state"), states).await?;
        let reloads = self.socket.reloads().await?.unwrap_or_default();
        self.socket.send_command("reload").await?;
        self.until_reloaded(reloads + 1).await?;
        self.config = config;
        Ok(())
    }

    /// Ends the established connections to this member, or to all members, of the current worker.
    pub(crate) async fn cut(&self, member: Option<&str>) -> io::Result<()> {
        let states = self.socket.send_command("@1 show servers state").await?;
        // The columns are: number and name of the backend, number and name of the server.
        for line in states.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace().skip(1);
            let (Some(backend), Some(server)) = (words.next(), words.nth(1)) else {
                continue;
            };
            if member.is_none_or(|member| member == server) {
                let command = format!("@1 shutdown sessions server {backend}/{server}");
                self.socket.send_command(&command).await?;
            }
        }
        Ok(())
    }

    /// Waits until a worker runs the configuration that was loaded as this reload.
    async fn until_reloaded(&mut self, reload: u64) -> io::Result<()> {
        let waited = tokio::time::timeout(RELOAD, async {
            loop {
                if let Some(status) = self.master.try_wait()? {
                    let log = tokio::fs::read_to_string(self.folder.path().join("log")).await?;
                    return Err(io::Error::other(format!("HAProxy: {status}: {log}")));
                }
                // The socket does not answer while HAProxy starts and reloads.
                if let Ok(Some(reloads)) = self.socket.reloads().await
                    && reloads >= reload
                {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        waited
            .await
            .unwrap_or_else(|_| Err(io::Error::other("HAProxy has not loaded its configuration")))
    }
}

/// The socket of the master, which passes commands on to its current worker.
#[derive(Clone)]
struct Socket(PathBuf);

impl Socket {
    /// Reports the results of the checks of all members again and again, as the amphora's heartbeats do.
    async fn report_checks(self, checked: impl Fn(&str, bool)) {
        loop {
            // There is no answer while HAProxy starts and reloads.
            let page = self.send_command("@1 show stat").await.unwrap_or_default();
            for line in page.lines().filter(|line| !line.starts_with('#')) {
                let columns: Vec<&str> = line.split(',').collect();
                let (Some(member), Some(status)) = (columns.get(1), columns.get(STATUS)) else {
                    continue;
                };
                if status.starts_with("UP") || status.starts_with("DOWN") {
                    checked(member, status.starts_with("UP"));
                }
            }
            tokio::time::sleep(REPORT).await;
        }
    }

    /// How often the configuration was loaded again; `None` while no worker runs it.
    async fn reloads(&self) -> io::Result<Option<u64>> {
        let processes = self.send_command("show proc").await?;
        let mut reloads = None;
        let mut is_current = false;
        let mut has_worker = false;
        for line in processes.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["#", "workers"] => is_current = true,
                ["#", "old", "workers"] => is_current = false,
                [_, "master", count, ..] => reloads = count.parse().ok(),
                [_, "worker", ..] => has_worker |= is_current,
                _ => {}
            }
        }
        Ok(reloads.filter(|_| has_worker))
    }

    /// The answer of the master's socket to a command.
    async fn send_command(&self, command: &str) -> io::Result<String> {
        let asked = async {
            let mut socket = UnixStream::connect(&self.0).await?;
            socket.write_all(format!("{command}\n").as_bytes()).await?;
            // Without this, the master does not end the answer of a worker.
            socket.shutdown().await?;
            let mut answer = String::new();
            socket.read_to_string(&mut answer).await?;
            Ok(answer)
        };
        let asked = tokio::time::timeout(RELOAD, asked).await;
        asked.unwrap_or_else(|_| Err(io::Error::other(format!("no answer to {command}"))))
    }
}

/// The configuration that Octavia's templates give these listeners. `folder` has the states of the servers.
pub fn configuration(folder: &Path, addresses: &[IpAddr], listeners: &[AppliedListener]) -> String {
    let mut text = format!(
        "global\n    no log\n    server-state-file {}\n\ndefaults\n    no log\n    retries 3\n    option redispatch\n",
        folder.join("servers-state").display()
    );
    for listener in listeners.iter().filter(|listener| listener.enabled) {
        add_listener(&mut text, addresses, listener);
    }
    text
}

fn add_listener(text: &mut String, addresses: &[IpAddr], listener: &AppliedListener) {
    let AppliedListener {
        id,
        port,
        allowed_cidrs,
        pool,
        ..
    } = listener;
    let mut add = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    add(&format!("\nfrontend {id}"));
    for address in addresses {
        add(&format!("    bind {address}:{port}"));
    }
    add("    mode tcp\n    timeout client 50000");
    // A security group of the amphora's port keeps others away in Octavia.
    if !allowed_cidrs.is_empty() {
        let allowed = allowed_cidrs.join(" ");
        add(&format!(
            "    tcp-request connection reject unless {{ src {allowed} }}"
        ));
    }
    let Some(pool) = pool else {
        return;
    };
    let backend = format!("{}:{id}", pool.id);
    add(&format!(
        "    default_backend {backend}\n\nbackend {backend}"
    ));
    add(
        "    mode tcp\n    balance roundrobin\n    option allbackups\n    timeout connect 5000\n    timeout server 50000",
    );
    add_members(text, pool);
}

fn add_members(text: &mut String, pool: &AppliedPool) {
    if let Some(monitor) = &pool.monitor {
        // Writing to a String can't fail.
        let _ = writeln!(
            text,
            "    load-server-state-from-file global\n    timeout check {}s",
            monitor.timeout.max(1)
        );
        if let "HTTP" | "HTTPS" = monitor.kind.as_str() {
            let path = monitor.path.as_deref().unwrap_or("/");
            let _ = writeln!(
                text,
                "    option httpchk GET {path}\n    http-check expect rstatus 200"
            );
        }
    }
    for member in &pool.members {
        let checks = pool.monitor.as_ref().map(|monitor| checks(member, monitor));
        let _ = writeln!(
            text,
            "    server {} {} weight {}{}{}{}",
            member.id,
            target(member, &member.address, member.port),
            member.weight,
            checks.unwrap_or_default(),
            if member.backup { " backup" } else { "" },
            if member.enabled { "" } else { " disabled" },
        );
    }
}

/// The checks of a member.
fn checks(member: &AppliedMember, monitor: &AppliedMonitor) -> String {
    let tls = if monitor.kind == "HTTPS" {
        " check-ssl verify none"
    } else {
        ""
    };
    let mut text = format!(
        " check{tls} inter {}s fall {} rise {}",
        monitor.delay.max(1),
        monitor.fall.max(1),
        monitor.rise.max(1)
    );
    let (address, port) = &member.check;
    let checked = target(member, address, *port);
    let carried = target(member, &member.address, member.port);
    if let (Some((address, port)), Some((own_address, own_port))) =
        (checked.rsplit_once(':'), carried.rsplit_once(':'))
    {
        // Writing to a String can't fail.
        if address != own_address {
            let _ = write!(text, " addr {address}");
        }
        if port != own_port {
            let _ = write!(text, " port {port}");
        }
    }
    text
}

/// The address to which HAProxy connects.
fn target(member: &AppliedMember, address: &str, port: u16) -> String {
    let is_loopback = address
        .parse()
        .is_ok_and(|address: IpAddr| address.is_loopback());
    if is_loopback && member.plugged {
        format!("{address}:{port}")
    } else {
        NOWHERE.to_owned()
    }
}
