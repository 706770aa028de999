//! Decides what to do about a security group and its rules. The functions are pure.

use std::collections::BTreeSet;

use super::{desired_rules::DesiredRule, rule::Rule};
use capo_core::ids::SecurityGroupRuleId;

/// What to do about a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GroupPlan<G> {
    /// The group exists, and its rules are made to match the spec.
    Manage(G),
    /// The group exists and is not needed. It is deleted once nothing uses it.
    Leave(G),
    /// The group is created.
    Create,
    /// The group neither exists nor is needed.
    Nothing,
}

/// Decides what to do about the group that was found for a role.
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
    /// The traffic that the rule allows.
    pub rule: Rule,
}

/// The changes of a group's rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RuleChanges {
    /// The rules to create.
    pub create: Vec<DesiredRule>,
    /// The ids of the rules to delete.
    pub delete: Vec<SecurityGroupRuleId>,
}

/// The difference between the desired rules and those that were found. `complete` is false if some rules of the spec or
/// the port of the API servers could not be parsed. Then no rule is deleted, because it may be one of these.
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

    /// Desired ports, found ports, whether all of the spec was parsed, ports to create, ids to delete.
    type Case<'a> = (&'a [u16], &'a [u16], bool, &'a [u16], &'a [&'a str]);

    #[test]
    fn only_the_difference_is_changed() {
        let cases: [Case<'_>; 5] = [
            (&[], &[], true, &[], &[]),
            (&[1, 2], &[2, 1], true, &[], &[]),
            (&[1, 2], &[2, 22], true, &[1], &["22"]),
            (&[1], &[1, 1], true, &[], &[]),
            // The rule that was found may be the rule of the spec that could not be parsed.
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
