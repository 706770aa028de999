//! The reference page.

use std::fmt::Write as _;

use super::catalogue::{ALL, Kind, Metric};

/// `docs/metrics.md`, written from the catalogue.
pub fn page() -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         Written from the code. `/metrics` shows states of load balancers, members, gates and budgets as they are at the moment of\n\
         the scrape, and only where this process leads; what is gone is gone from the next scrape. Times are timestamps: an age is\n\
         `time() - metric`. Drop `instance` and `pod` with `max` or `sum`, so that a change of the leader does not cut a line in two.\n\n\
         One member costs 17 series, a cluster at most 50 besides with two API ports, all the rest some hundreds for one cloud and\n\
         under 150 for each further one. Above `--metrics-max-members` (500) members `--metrics-member-detail=auto` shows one by one only those\n\
         that are not ACTIVE, then those that are not ONLINE, and never more than that number; `full` shows all, `off` none. `capo_lb_members`\n\
         counts all of them always, and `capo_metrics_member_detail_suppressed` tells that some are only counted.\n\n",
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

/// Titles, and the beginnings of the names below them; the last takes what is left.
const SECTIONS: &[(&str, &[&str])] = &[
    ("Load balancers and members", &["capo_lb_"]),
    ("Gates", &["capo_gate_"]),
    ("OpenStack", &["capo_openstack_"]),
    ("Controllers", &["controller_runtime_", "workqueue_"]),
    (
        "Reading and watching",
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
        format!(" Shows once {}.", metric.once)
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
        metric.help,
        labels.join(" "),
        metric.bound
    )
}
