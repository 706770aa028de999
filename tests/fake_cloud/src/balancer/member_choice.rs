//! The choice of the member for a connection: weighted round robin over the members that are up, and over the backups
//! last.

use std::collections::HashMap;

use crate::octavia::{AppliedMember, AppliedPool};

/// The state of a pool between connections and across pushes.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    /// Members whose checks fail.
    pub(crate) down: HashMap<String, bool>,
    /// Smooth weighted round robin: the current weight of each member.
    owed: HashMap<String, i64>,
}

/// The members that may get a connection now. Without any primary member, all backups share the connections.
pub(crate) fn usable<'a>(pool: &'a AppliedPool, rotation: &Rotation) -> Vec<&'a AppliedMember> {
    let up = |member: &&AppliedMember| {
        member.enabled
            && (!pool.weighted || member.weight > 0)
            && !rotation.down.get(&member.id).copied().unwrap_or(false)
    };
    let (backups, primaries): (Vec<&AppliedMember>, Vec<&AppliedMember>) = pool
        .members
        .iter()
        .filter(up)
        .partition(|member| member.backup);
    if primaries.is_empty() {
        backups
    } else {
        primaries
    }
}

/// The next member in turn. The member that has just refused is avoided if there is another one.
pub(crate) fn next(
    pool: &AppliedPool,
    rotation: &mut Rotation,
    refused: Option<&str>,
) -> Option<AppliedMember> {
    let mut choice: Vec<AppliedMember> = usable(pool, rotation).into_iter().cloned().collect();
    if choice.len() > 1 {
        choice.retain(|member| Some(member.id.as_str()) != refused);
    }
    let weight = |member: &AppliedMember| {
        if pool.weighted {
            i64::try_from(member.weight).unwrap_or(1).max(1)
        } else {
            1
        }
    };
    let total: i64 = choice.iter().map(weight).sum();
    for member in &choice {
        *rotation.owed.entry(member.id.clone()).or_default() += weight(member);
    }
    let chosen = choice
        .into_iter()
        .max_by_key(|member| rotation.owed.get(&member.id).copied().unwrap_or_default())?;
    *rotation.owed.entry(chosen.id.clone()).or_default() -= total;
    rotation
        .owed
        .retain(|id, _| pool.members.iter().any(|member| member.id == *id));
    Some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, weight: u64, backup: bool) -> AppliedMember {
        AppliedMember {
            id: id.to_owned(),
            address: "127.0.0.9".to_owned(),
            port: 1,
            weight,
            backup,
            enabled: true,
            plugged: true,
            check: ("127.0.0.9".to_owned(), 1),
        }
    }

    fn pool(members: Vec<AppliedMember>) -> AppliedPool {
        AppliedPool {
            id: "pool".to_owned(),
            redispatch: true,
            weighted: true,
            monitor: None,
            members,
        }
    }

    fn turns(pool: &AppliedPool, rotation: &mut Rotation, count: usize) -> String {
        (0..count)
            .filter_map(|_| next(pool, rotation, None))
            .map(|member| member.id)
            .collect()
    }

    #[test]
    fn takes_turns_by_weight() {
        let pool = pool(vec![
            member("a", 1, false),
            member("b", 2, false),
            member("c", 0, false),
        ]);
        let turns = turns(&pool, &mut Rotation::default(), 300);
        assert_eq!(turns.matches('a').count(), 100);
        assert_eq!(turns.matches('b').count(), 200);
        assert_eq!(
            turns.matches('c').count(),
            0,
            "weight 0 gets no new connection"
        );
    }

    #[test]
    fn backups_serve_only_when_no_primary_is_up() {
        let pool = pool(vec![member("a", 1, false), member("z", 1, true)]);
        let mut rotation = Rotation::default();
        assert_eq!(turns(&pool, &mut rotation, 3), "aaa");
        rotation.down.insert("a".into(), true);
        assert_eq!(turns(&pool, &mut rotation, 2), "zz");
    }

    #[test]
    fn the_one_that_refused_is_passed_over_if_it_is_not_the_only_one() {
        let two = pool(vec![member("a", 1, false), member("b", 1, false)]);
        assert_eq!(
            next(&two, &mut Rotation::default(), Some("a")).map(|member| member.id),
            Some("b".into())
        );
        let one = pool(vec![member("a", 1, false)]);
        assert_eq!(
            next(&one, &mut Rotation::default(), Some("a")).map(|member| member.id),
            Some("a".into())
        );
    }

    #[test]
    fn without_weights_every_enabled_member_is_equal() {
        let mut pool = pool(vec![member("a", 0, false), member("b", 5, false)]);
        pool.weighted = false;
        let turns = turns(&pool, &mut Rotation::default(), 10);
        assert_eq!(turns.matches('a').count(), 5, "weight 0 does not drain");
    }
}
