//! A timeline as text: one line per change, with only the difference, and the count of requests beside it.

use std::{collections::HashMap, fmt::Write as _, time::Duration};

use super::{
    Answered, ApiServer, Cluster, Entry, Machine, Member, MemberKey, OpenStackMachine, Sender,
    Server, Slow, What,
    changes::{call_text, cluster_change, infrastructure_change, machine_change, member_change},
};

/// The whole timeline as text.
pub fn render(entries: &[Entry]) -> String {
    let mut page = Page::default();
    page.line("time", "requests", "subject", "what");
    for entry in entries {
        page.entry(entry);
    }
    page.flush_failures();
    page.text
}

/// The events between two moments.
pub fn render_between(entries: &[Entry], from: Duration, until: Duration) -> String {
    let mut page = Page::default();
    page.line("time", "requests", "subject", "what");
    for entry in entries.iter().take_while(|entry| entry.at <= until) {
        if entry.at < from {
            page.printed.describe_change(&entry.what);
        } else {
            page.entry(entry);
        }
    }
    page.flush_failures();
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
    printed: PrintedState,
    answered: u64,
    failed: u64,
    failures: Option<Failures>,
}

/// Requests that failed one after another for one reason.
struct Failures {
    from: Duration,
    until: Duration,
    count: u64,
    why: String,
}

impl Page {
    fn line(&mut self, at: &str, requests: &str, subject: &str, what: &str) {
        let _ = writeln!(self.text, "{at:>8}  {requests:>9}  {subject:<22} {what}");
    }

    fn timed(&mut self, at: Duration, subject: &str, what: &str) {
        let requests = if self.failed == 0 {
            self.answered.to_string()
        } else {
            format!("{}-{}", self.answered, self.failed)
        };
        let at = format!("{:.2}", at.as_secs_f64());
        self.line(&at, &requests, subject, what);
    }

    fn entry(&mut self, entry: &Entry) {
        match &entry.what {
            What::Answered(Answered { count, .. }) => self.answered += u64::from(*count),
            What::RequestFailed(why) => {
                self.failed += 1;
                let goes_on = self
                    .failures
                    .as_ref()
                    .is_some_and(|failures| failures.why == *why);
                if !goes_on {
                    self.flush_failures();
                }
                let failures = self.failures.get_or_insert_with(|| Failures {
                    from: entry.at,
                    until: entry.at,
                    count: 0,
                    why: why.clone(),
                });
                failures.until = entry.at;
                failures.count += 1;
            }
            what => {
                if let Some((subject, text)) = self.printed.describe_change(what) {
                    self.flush_failures();
                    self.timed(entry.at, &subject, &text);
                }
            }
        }
    }

    fn flush_failures(&mut self) {
        let Some(failures) = self.failures.take() else {
            return;
        };
        let what = if failures.count == 1 {
            format!("REQUEST FAILED: {}", failures.why)
        } else {
            format!(
                "{} REQUESTS FAILED until {:.2}: {}",
                failures.count,
                failures.until.as_secs_f64(),
                failures.why
            )
        };
        self.timed(failures.from, "client", &what);
    }
}

/// The state that was printed already, so that only differences are printed.
#[derive(Default)]
struct PrintedState {
    cluster: Cluster,
    machines: HashMap<String, Machine>,
    infrastructure: HashMap<String, OpenStackMachine>,
    members: HashMap<MemberKey, Member>,
    holder: String,
    reads: u32,
}

impl PrintedState {
    /// Subject and text of an event that is printed.
    fn describe_change(&mut self, what: &What) -> Option<(String, String)> {
        let (subject, text) = match what {
            What::Cluster(cluster) => {
                let text = cluster_change(&self.cluster, cluster);
                self.cluster = cluster.clone();
                ("cluster".to_owned(), text)
            }
            What::Machine(machine) => {
                let before = self.machines.insert(machine.name.clone(), machine.clone());
                (
                    machine.name.clone(),
                    machine_change(before.as_ref(), machine),
                )
            }
            What::OpenStackMachine(machine) => {
                let before = self
                    .infrastructure
                    .insert(machine.name.clone(), machine.clone());
                let text = infrastructure_change(&before.unwrap_or_default(), machine);
                (machine.name.clone(), text)
            }
            What::Member(member) => {
                let before = self.members.insert(member.key.clone(), member.clone());
                let text = member_change(before.as_ref(), member);
                (subject_of(&member.key), text)
            }
            What::MemberGone(key) => {
                self.members.remove(key);
                (subject_of(key), "member gone".to_owned())
            }
            What::Gone(kind, name) => (name.clone(), format!("{kind} gone")),
            What::Lease(lease) => {
                if lease.holder == self.holder {
                    return None;
                }
                self.holder.clone_from(&lease.holder);
                let text = if lease.holder.is_empty() {
                    "lease given up".to_owned()
                } else {
                    format!("lease held by {}", lease.holder)
                };
                ("manager".to_owned(), text)
            }
            What::Server(name, state) => (
                name.clone(),
                match state {
                    Server::Up => "server up",
                    Server::Down => "server down",
                    Server::Gone => "server gone",
                }
                .to_owned(),
            ),
            What::Call(call) => {
                let ordinary = call.status.is_some_and(|status| status < 400);
                if !call.writes() && ordinary {
                    self.reads += u32::from(call.octavia);
                    return None;
                }
                let text = call_text(call, self.reads);
                self.reads = 0;
                ("openstack".to_owned(), text)
            }
            What::ApiServer(machine, state) => {
                let text = match state {
                    ApiServer::Started => "API server started",
                    ApiServer::Ready => "API server ready",
                    ApiServer::Killed => "API server killed",
                };
                (machine.clone(), text.to_owned())
            }
            What::Slow(Slow { sender, took }) => {
                let took = took.as_secs_f64();
                match sender {
                    Sender::Client => ("client".to_owned(), format!("a request took {took:.1} s")),
                    Sender::Control => (
                        "control".to_owned(),
                        format!("a request to an API server itself took {took:.1} s"),
                    ),
                }
            }
            What::Remark(text) => ("==".to_owned(), text.clone()),
            What::Broken(text) => ("== broken".to_owned(), text.clone()),
            What::Mended(text) => ("== mended".to_owned(), text.clone()),
            What::Wiped(kind, name) => (name.clone(), format!("status of the {kind} wiped")),
            What::WatchCut(text) => ("client".to_owned(), format!("watch cut: {text}")),
            What::WatchFailed(text) => ("client".to_owned(), format!("WATCH FAILED: {text}")),
            What::Remains(remains) => {
                let text = format!("left {:?}, twice {:?}", remains.left, remains.twice);
                ("cloud".to_owned(), text)
            }
            What::Answered(_) | What::RequestFailed(_) => return None,
        };
        (!text.is_empty()).then_some((subject, text))
    }
}

fn subject_of(key: &MemberKey) -> String {
    let machine = if key.machine.is_empty() {
        "stranger"
    } else {
        &key.machine
    };
    format!("{machine}:{}", key.port)
}
