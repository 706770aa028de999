//! The reference page.

use std::fmt::Write as _;

use super::catalogue::{ALL, Kind, Metric};

/// `docs/metrics.md`, written from the catalogue.
pub fn page() -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         Written from the code. `/metrics` shows the states of load balancers, members, gates and budgets at the moment of the scrape,\n\
         in the leading process only; deleted objects are absent from the next scrape on. Times are timestamps: an age is\n\
         `time() - metric`. Aggregate `instance` and `pod` away with `max` or `sum`, so that a change of the leader does not split a line.\n\n\
         One member has 17 series, a cluster with two API ports at most 50 more, and everything else has some hundreds for one cloud\n\
         and under 150 for each further cloud. Above `--metrics-max-members` (500) members, `--metrics-member-detail=auto` shows only\n\
         members that are not ACTIVE, then those that are not ONLINE, and never more than that number; `full` shows all, `off` none.\n\
         `capo_lb_members` always counts all of them, and `capo_metrics_member_detail_suppressed` is 1 while some have no series of their own.\n\n",
    );
    for (title, prefixes) in SECTIONS {
        let _ = write!(
            page,
            "## {title}\n\n| metric | labels | at most |\n|---|---|---|\n"
        );
        for metric in ALL.iter().filter(|metric| section(metric) == *prefixes) {
            let _ = writeln!(page, "{}", row(metric));
        }
        page.push('\n');
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

/// Titles, and the prefixes of the names in each section; the last section has the rest.
const SECTIONS: &[(&str, &[&str])] = &[
    ("Load balancers and members", &["capo_lb_"]),
    ("Gates", &["capo_gate_"]),
    ("OpenStack", &["capo_openstack_"]),
    ("Controllers", &["controller_runtime_", "workqueue_"]),
    (
        "Reads and watches",
        &["capo_poll_", "capo_watch_", "rest_client_"],
    ),
    ("The process", &[""]),
];

fn section(metric: &Metric) -> &'static [&'static str] {
    let all = SECTIONS.iter().map(|(_, prefixes)| *prefixes);
    let mut found = all.filter(|prefixes| prefixes.iter().any(|p| metric.name.starts_with(p)));
    found.next().unwrap_or_default()
}

fn row(metric: &Metric) -> String {
    let labels: Vec<String> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
    let once = if metric.once.is_empty() {
        String::new()
    } else {
        format!(" Appears once {}.", metric.once)
    };
    let buckets = match metric.kind {
        Kind::Histogram(bounds) => {
            let (first, last) = (bounds.first(), bounds.last());
            let (first, last) = (first.unwrap_or(&0.0), last.unwrap_or(&0.0));
            format!(", {} buckets from {first} to {last}", bounds.len())
        }
        _ => String::new(),
    };
    format!(
        "| `{}`<br>{}{buckets}. {}{once} | {} | {} |",
        metric.name,
        metric.kind.as_str(),
        // mdBook would otherwise read `<error>` as an HTML element.
        metric.help.replace('<', "\\<"),
        labels.join(" "),
        metric.bound
    )
}
