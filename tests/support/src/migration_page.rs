//! The commands of docs/migrate-from-capo.md: each stands below ```` ```bash NAME ```` and is run by a test from the
//! page's own text.

/// The page that an operator reads.
pub const PAGE: &str = include_str!("../../../docs/migrate-from-capo.md");
/// The blocks that tests/suite/operator/swap.rs runs against CAPO's release, without a cluster.
pub const RUN_ON_THE_RELEASE: [&str; 13] = [
    "healthy",
    "cluster-api",
    "backup",
    "swap",
    "swapped",
    "clusterctl",
    "enforce",
    "back-hooks",
    "back-converter",
    "back-storage",
    "back-capo",
    "back-leftovers",
    "back-inventory",
];
/// The blocks that tests/takeover runs against clusters of CAPO.
pub const RUN_ON_CLUSTERS: [&str; 3] = ["preflight", "plan", "verify"];

/// The commands of a block, without the spaces in front of a list item.
pub fn block(name: &str) -> String {
    let mut lines = PAGE.lines();
    let fence = format!("```bash {name}");
    let found = lines.find(|line| line.trim_start() == fence);
    let found = found.unwrap_or_else(|| panic!("docs/migrate-from-capo.md has no block {name}"));
    let indent = found.len() - found.trim_start().len();
    lines
        .take_while(|line| line.trim_start() != "```")
        .map(|line| line.get(indent..).unwrap_or_default().to_owned() + "\n")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_run_by_a_test() {
        let fences = PAGE
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("```"));
        let opened: Vec<&str> = fences.filter(|name| !name.is_empty()).collect();
        let known: Vec<String> = RUN_ON_THE_RELEASE
            .iter()
            .chain(&RUN_ON_CLUSTERS)
            .map(|name| format!("bash {name}"))
            .collect();
        for block in &opened {
            assert!(
                known.iter().any(|name| name == block),
                "nothing runs {block}"
            );
        }
        assert_eq!(opened.len(), known.len());
        for line in PAGE.lines().filter(|line| line.starts_with("    ")) {
            for program in ["kubectl ", "capo-rs ", "clusterctl "] {
                assert!(
                    !line.trim_start().starts_with(program),
                    "outside of a block: {line}"
                );
            }
        }
    }
}
