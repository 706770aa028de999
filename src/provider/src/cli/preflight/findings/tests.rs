use super::*;
use crate::storage_migration::plan::Definition;
use crate::{
    manager::plan::{KubernetesWrite, OpenStackWrite, PlanRefusal},
    subject::Subject,
};
use capo_core::ObjectName;
use capo_openstack::{ApiVersion, Quota};
use serde_json::Value;

fn subject() -> Subject {
    Subject::new("OpenStackCluster", &ObjectName::new("n", "c"))
}

fn cluster() -> ClusterFacts {
    ClusterFacts {
        object: subject(),
        cloud: Ok(CloudFacts {
            interface: Interface::Public,
            remarks: Vec::new(),
            octavia: Some(ApiVersion::new(2, 27)),
            regions: Vec::new(),
            quotas: Vec::new(),
            unknown_quotas: Vec::new(),
        }),
        provider: None,
        restricts_clients: true,
        endpoint: Some(("api:6443".to_owned(), Ok(()))),
    }
}

fn healthy() -> Facts {
    Facts {
        cluster_api: vec!["v1beta1".to_owned(), "v1beta2".to_owned()],
        cert_manager: true,
        definitions: Vec::new(),
        managers: Ok(Vec::new()),
        open_identities: Vec::new(),
        clusters: vec![cluster()],
    }
}

fn planned() -> ObjectPlan {
    ObjectPlan {
        object: subject(),
        result: Assessment::Completed,
        openstack: Vec::new(),
        kubernetes: Vec::new(),
        updates_status: true,
        refusals: Vec::new(),
    }
}

fn found(facts: &Facts, object: ObjectPlan) -> Vec<(Level, Code)> {
    let plan = Plan {
        objects: vec![object],
    };
    let findings = assess(facts, &Reach::default(), &plan);
    findings.iter().map(|one| (one.level, one.code)).collect()
}

#[test]
fn a_healthy_installation_has_no_finding() {
    assert_eq!(found(&healthy(), planned()), []);
}

#[test]
fn every_fact_that_matters_is_found() {
    type OfFacts = fn(&mut Facts);
    fn cloud(facts: &mut Facts) -> &mut CloudFacts {
        facts.clusters[0].cloud.as_mut().unwrap()
    }
    fn full(resource: LimitedResource) -> Quota {
        Quota {
            resource,
            used: 4,
            limit: 4,
        }
    }
    let cases: [(OfFacts, Level, Code); 15] = [
        (
            |facts| facts.cluster_api = vec!["v1beta1".to_owned()],
            Level::Problem,
            Code::ClusterApiTooOld,
        ),
        (
            |facts| facts.cert_manager = false,
            Level::Problem,
            Code::CertManagerMissing,
        ),
        (
            |facts| facts.open_identities = vec!["shared".to_owned()],
            Level::Note,
            Code::IdentityOpenToEveryNamespace,
        ),
        (
            |facts| cloud(facts).interface = Interface::Internal,
            Level::Problem,
            Code::EndpointInterface,
        ),
        (
            |facts| cloud(facts).remarks = vec!["cacert names a file".to_owned()],
            Level::Note,
            Code::SettingIgnored,
        ),
        (
            |facts| cloud(facts).octavia = Some(ApiVersion::new(2, 9)),
            Level::Problem,
            Code::OctaviaTooOld,
        ),
        (
            |facts| {
                cloud(facts).quotas = vec![full(LimitedResource::Ports)];
            },
            Level::Problem,
            Code::QuotaExhausted,
        ),
        (
            |facts| cloud(facts).quotas = vec![full(LimitedResource::Volumes)],
            Level::Note,
            Code::QuotaExhausted,
        ),
        (
            |facts| cloud(facts).quotas = vec![full(LimitedResource::FloatingIps)],
            Level::Note,
            Code::QuotaExhausted,
        ),
        (
            |facts| cloud(facts).regions = vec!["One".to_owned(), "Two".to_owned()],
            Level::Problem,
            Code::RegionMissing,
        ),
        (
            |facts| cloud(facts).unknown_quotas = vec!["network: HTTP 403".to_owned()],
            Level::Note,
            Code::QuotaUnknown,
        ),
        (
            |facts| {
                facts.definitions = vec![Definition {
                    name: "openstackclusters".to_owned(),
                    served: vec!["v1beta1".to_owned()],
                    storage: "v1beta1".to_owned(),
                    stored: vec!["v1alpha7".to_owned(), "v1beta1".to_owned()],
                    kind: "OpenStackCluster".to_owned(),
                    plural: "openstackclusters".to_owned(),
                    resource_version: None,
                }];
            },
            Level::Problem,
            Code::StoredVersions,
        ),
        (
            |facts| facts.clusters[0].cloud = Err("HTTP 401".to_owned()),
            Level::Unknown,
            Code::CloudUnreadable,
        ),
        (
            |facts| facts.clusters[0].provider = Some("ovn".to_owned()),
            Level::Note,
            Code::LoadBalancerProvider,
        ),
        (
            |facts| {
                facts.clusters[0].endpoint =
                    Some(("api:6443".to_owned(), Err("refused".to_owned())));
            },
            Level::Note,
            Code::EndpointUnreachable,
        ),
    ];
    for (change, level, code) in cases {
        let mut facts = healthy();
        change(&mut facts);
        assert_eq!(found(&facts, planned()), [(level, code)]);
    }
}

#[test]
fn an_octavia_that_is_too_old_matters_only_where_ranges_are_named() {
    let mut facts = healthy();
    facts.clusters[0].restricts_clients = false;
    if let Ok(cloud) = &mut facts.clusters[0].cloud {
        cloud.octavia = Some(ApiVersion::new(2, 9));
    }
    assert_eq!(found(&facts, planned()), []);
}

type Change = Box<dyn FnOnce(&mut ObjectPlan)>;

#[test]
fn what_the_plan_shows_is_found() {
    let refusal = |reason: &str| PlanRefusal {
        condition: "Ready".to_owned(),
        reason: reason.to_owned(),
        message: "spec.x".to_owned(),
    };
    let openstack = OpenStackWrite {
        service: "network",
        request: "security_group_rule_create",
        method: "POST",
        path: "security-group-rules".to_owned(),
        body: Value::Null,
    };
    let kubernetes = KubernetesWrite {
        verb: "patch",
        content: Value::Null,
    };
    let failed = Assessment::Failed {
        reason: "OpenStackUnavailable".to_owned(),
        message: "503".to_owned(),
    };
    let waiting = Assessment::Waiting {
        reason: "WaitingForBootstrapData".to_owned(),
        message: "x".to_owned(),
    };
    let cases: Vec<(Change, Vec<(Level, Code)>)> = vec![
        (
            Box::new(move |object| {
                object.refusals = vec![refusal("NotSupported"), refusal("InvalidSpec")];
            }),
            vec![
                (Level::Problem, Code::NotSupported),
                (Level::Problem, Code::InvalidSpec),
            ],
        ),
        (
            Box::new(|object| object.openstack = vec![openstack]),
            vec![(Level::Problem, Code::ChangesPlanned)],
        ),
        (
            Box::new(|object| object.kubernetes = vec![kubernetes]),
            vec![(Level::Problem, Code::ChangesPlanned)],
        ),
        (
            Box::new(|object| object.result = failed),
            vec![(Level::Unknown, Code::NotJudged)],
        ),
        (
            Box::new(|object| object.result = Assessment::NotReached),
            vec![(Level::Unknown, Code::NotJudged)],
        ),
        (Box::new(|object| object.result = waiting), vec![]),
    ];
    for (change, expected) in cases {
        let mut object = planned();
        change(&mut object);
        assert_eq!(found(&healthy(), object), expected);
    }
}
