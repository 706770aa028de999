//! `capo-rs plan` and `capo-rs preflight` over what CAPO made.

use crate::{
    course::last_calls,
    kinds::Kind,
    moment::Moment,
    report::Found,
    swap::{self, Home},
    tested_cluster::TestedCluster,
};

/// `capo-rs plan` over what CAPO made: it lists nothing, it lists a rule that is missing, and it writes nothing.
pub(crate) async fn planned(clusters: &mut [(TestedCluster, Found)], home: &Home) {
    let marks = last_calls(clusters);
    let mut before = Vec::new();
    for (cluster, _) in clusters.iter() {
        before.push(cluster.resource_versions().await);
    }
    let plan = home.plan().await.unwrap();
    let complete = match plan.code {
        Some(0) => Ok(()),
        code => Err(format!("plan ended with {code:?}: {}", plan.complaints)),
    };
    for (cluster, found) in clusters.iter_mut() {
        found.planned = match plan.of(&cluster.name) {
            // CAPO has not created anything of this cluster yet.
            _ if Moment::of(cluster.kind) == Moment::HalfCreatedCluster => Ok(()),
            changes if changes.is_empty() => complete.clone(),
            changes => Err(format!("plan lists {changes:#?}")),
        };
    }
    let report = home.preflight().await.unwrap();
    // No cert-manager issues certificates here.
    let missing = report.to_string().contains("CertManagerMissing");
    for (cluster, found) in clusters.iter_mut() {
        let problems = swap::problems(&report, &cluster.name);
        if !problems.is_empty() || !missing {
            let failure = format!("preflight finds {problems:?} in {report:#}");
            found.planned = found.planned.clone().and(Err(failure));
        }
    }
    let rule_of = clusters
        .iter()
        .position(|(cluster, _)| cluster.kind == Kind::Plain);
    let mut without_a_rule = None;
    if let Some((cluster, found)) = rule_of.and_then(|at| clusters.get_mut(at)) {
        let rule = cluster.remove_api_rule().await;
        let mark = cluster.cloud.control().last_call();
        let plan = home.plan().await.unwrap();
        let listed = plan.of(&cluster.name).join("\n");
        let asserted = plan.code == Some(1)
            && listed.contains("security_group_rule_create")
            && listed.contains("6443")
            && cluster.writes_since(mark).is_empty();
        if !asserted {
            let failure = format!("plan without a rule ended with {:?}: {listed}", plan.code);
            found.planned = found.planned.clone().and(Err(failure));
        }
        cluster.restore_rule(rule).await;
        without_a_rule = Some(cluster.name.clone());
    }
    for (((cluster, found), mark), before) in clusters.iter_mut().zip(marks).zip(before) {
        // The test itself deleted and created the rule.
        let own = if without_a_rule.as_ref() == Some(&cluster.name) {
            2
        } else {
            0
        };
        let writes = cluster.writes_since(mark);
        let after = cluster.resource_versions().await;
        if writes.len() > own || before != after {
            let failure = format!("plan changed something: {writes:?}; {before:?}, then {after:?}");
            found.planned = found.planned.clone().and(Err(failure));
        }
    }
}
