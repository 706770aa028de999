//! Which availability zones Cluster API may place machines in. The functions are pure.

use std::collections::BTreeSet;

/// The maximum number of failure domains that Cluster API accepts.
const MAX_FAILURE_DOMAINS: usize = 100;

/// One availability zone as a failure domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Zone {
    /// The zone's name in Nova.
    pub name: String,
    /// Whether control-plane machines may be placed there.
    pub control_plane: bool,
}

/// The failure domains for the `available` zones, sorted by name. `chosen` are the zones that the user chose for the
/// control plane. If the user chose none, control-plane machines may be placed in all zones unless `omit` is set.
pub(crate) fn plan(available: &[String], chosen: &[String], omit: bool) -> Vec<Zone> {
    let names: BTreeSet<&String> = available.iter().filter(|name| !name.is_empty()).collect();
    names
        .into_iter()
        .take(MAX_FAILURE_DOMAINS)
        .map(|name| Zone {
            name: name.clone(),
            control_plane: if chosen.is_empty() {
                !omit
            } else {
                chosen.contains(name)
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(chosen: &[&str], omit: bool) -> Vec<(String, bool)> {
        let chosen: Vec<String> = chosen.iter().map(ToString::to_string).collect();
        plan(
            &["b".to_owned(), "a".to_owned(), "b".to_owned()],
            &chosen,
            omit,
        )
        .into_iter()
        .map(|zone| (zone.name, zone.control_plane))
        .collect()
    }

    #[test]
    fn the_users_choice_wins_over_the_flag() {
        let pair = |a, b| vec![("a".to_owned(), a), ("b".to_owned(), b)];
        assert_eq!(fit(&[], false), pair(true, true));
        assert_eq!(fit(&[], true), pair(false, false));
        assert_eq!(fit(&["b"], false), pair(false, true));
        assert_eq!(fit(&["b"], true), pair(false, true));
    }
}
