//! `capo-rs plan` and `capo-rs preflight` over what CAPO made.

use crate::{
    course::last_calls,
    kinds::Kind,
    moment::Moment,
    report::Found,
    site::Site,
    swap::{self, Home},
};

/// `capo-rs plan` over what CAPO made: it lists nothing, it lists a rule that is missing, and it writes nothing.
pub(crate) async fn planned(sites: &mut [(Site, Found)], home: &Home) {
    let marks = last_calls(sites);
    let mut before = Vec::new();
    for (site, _) in sites.iter() {
        before.push(site.resource_versions().await);
    }
    let plan = home.plan().await.unwrap();
    let complete = match plan.code {
        Some(0) => Ok(()),
        code => Err(format!("plan ended with {code:?}: {}", plan.complaints)),
    };
    for (site, found) in sites.iter_mut() {
        found.planned = match plan.of(&site.name) {
            // CAPO has not created anything of this cluster yet.
            _ if Moment::of(site.kind) == Moment::HalfCreatedCluster => Ok(()),
            changes if changes.is_empty() => complete.clone(),
            changes => Err(format!("plan lists {changes:#?}")),
        };
    }
    let report = home.preflight().await.unwrap();
    // No cert-manager issues certificates here.
    let missing = report.to_string().contains("CertManagerMissing");
    for (site, found) in sites.iter_mut() {
        let problems = swap::problems(&report, &site.name);
        if !problems.is_empty() || !missing {
            let failure = format!("preflight finds {problems:?} in {report:#}");
            found.planned = found.planned.clone().and(Err(failure));
        }
    }
    let rule_of = sites.iter().position(|(site, _)| site.kind == Kind::Plain);
    let mut without_a_rule = None;
    if let Some((site, found)) = rule_of.and_then(|at| sites.get_mut(at)) {
        let rule = site.remove_api_rule().await;
        let mark = site.cloud.control().last_call();
        let plan = home.plan().await.unwrap();
        let listed = plan.of(&site.name).join("\n");
        let asserted = plan.code == Some(1)
            && listed.contains("security_group_rule_create")
            && listed.contains("6443")
            && site.writes_since(mark).is_empty();
        if !asserted {
            let failure = format!("plan without a rule ended with {:?}: {listed}", plan.code);
            found.planned = found.planned.clone().and(Err(failure));
        }
        site.restore_rule(rule).await;
        without_a_rule = Some(site.name.clone());
    }
    for (((site, found), mark), before) in sites.iter_mut().zip(marks).zip(before) {
        // The test itself deleted and created the rule.
        let own = if without_a_rule.as_ref() == Some(&site.name) {
            2
        } else {
            0
        };
        let writes = site.writes_since(mark);
        let after = site.resource_versions().await;
        if writes.len() > own || before != after {
            let failure = format!("plan changed something: {writes:?}; {before:?}, then {after:?}");
            found.planned = found.planned.clone().and(Err(failure));
        }
    }
}
