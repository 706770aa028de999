//! What to do about a group and its rules. Plain decisions on what was read.

use std::collections::BTreeSet;

use super::{desired_rules::DesiredRule, rule::Rule};
use capo_core::ids::SecurityGroupRuleId;

/// What to do about a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GroupPlan<G> {
    /// The group exists, and its rules are made to match the spec.
    Manage(G),
    /// The group exists and is not needed; it is deleted once nothing uses it.
    Leave(G),
    /// The group is created.
    Create,
    /// The group neither exists nor is needed.
    Nothing,
}

/// Decides on the group that was found for a role.
pub(crate) fn group<G>(found: Option<G>, is_needed: bool) -> GroupPlan<G> {
    match (found, is_needed) {
        (Some(group), true) => GroupPlan::Manage(group),
        (Some(group), false) => GroupPlan::Leave(group),
        (None, true) => GroupPlan::Create,
        (None, false) => GroupPlan::Nothing,
    }
}

/// A rule as it was found in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundRule {
    /// Neutron's id.
    pub id: SecurityGroupRuleId,
    /// What it lets through.
    pub rule: Rule,
}

/// What to do to a group's rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RuleChanges {
    /// Rules that are missing.
    pub create: Vec<DesiredRule>,
    /// Ids of rules that are not desired.
    pub delete: Vec<SecurityGroupRuleId>,
}

/// The difference between what is desired and what was found. Where `complete` is false, some rules of the spec, or the
/// port of the API servers, could not be parsed: one that was found may be one of them, so none is deleted.
pub(crate) fn changes(desired: &[DesiredRule], complete: bool, found: &[FoundRule]) -> RuleChanges {
    let keep: BTreeSet<&Rule> = desired.iter().map(|w| &w.rule).collect();
    let there: BTreeSet<&Rule> = found.iter().map(|f| &f.rule).collect();
    RuleChanges {
        create: desired
            .iter()
            .filter(|w| !there.contains(&w.rule))
            .cloned()
            .collect(),
        delete: found
            .iter()
            .filter(|f| complete && !keep.contains(&f.rule))
            .map(|f| f.id.clone())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::cluster::security_groups::{
        family::Family, protocol::Protocol, rule::Remote,
    };

    fn rule(port: u16) -> Rule {
        Rule::ingress(Family::V4, Protocol::TCP, (port, port), Remote::Anywhere)
    }

    fn desired(ports: &[u16]) -> Vec<DesiredRule> {
        let all = ports.iter().map(|port| DesiredRule {
            rule: rule(*port),
            description: String::new(),
        });
        all.collect()
    }

    fn found(ports: &[u16]) -> Vec<FoundRule> {
        let all = ports.iter().map(|port| FoundRule {
            id: port.to_string().into(),
            rule: rule(*port),
        });
        all.collect()
    }

    #[test]
    fn a_group_that_is_not_needed_is_neither_created_nor_changed() {
        let cases = [
            (Some("g"), true, GroupPlan::Manage("g")),
            (Some("g"), false, GroupPlan::Leave("g")),
            (None, true, GroupPlan::Create),
            (None, false, GroupPlan::Nothing),
        ];
        for (found, is_needed, expected) in cases {
            assert_eq!(group(found, is_needed), expected);
        }
    }

    /// Wanted, found, whether all of the spec was parsed, to create, to delete.
    type Case<'a> = (&'a [u16], &'a [u16], bool, &'a [u16], &'a [&'a str]);

    #[test]
    fn only_the_difference_is_changed() {
        let cases: [Case<'_>; 5] = [
            (&[], &[], true, &[], &[]),
            (&[1, 2], &[2, 1], true, &[], &[]),
            (&[1, 2], &[2, 22], true, &[1], &["22"]),
            (&[1], &[1, 1], true, &[], &[]),
            // One that was found may be the rule of the spec that could not be parsed.
            (&[1, 2], &[2, 22], false, &[1], &[]),
        ];
        for (wanted, there, complete, create, delete) in cases {
            let changes = changes(&desired(wanted), complete, &found(there));
            assert_eq!(changes.create, desired(create), "{wanted:?} {there:?}");
            assert_eq!(changes.delete, delete, "{wanted:?} {there:?}");
        }
    }

    #[test]
    fn a_description_is_no_difference() {
        let mut wanted = desired(&[1]);
        for rule in &mut wanted {
            rule.description = "another".to_owned();
        }
        assert_eq!(changes(&wanted, true, &found(&[1])), RuleChanges::default());
    }
}
