//! The custom resource definitions, assembled from the types.

mod columns;

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceColumnDefinition, CustomResourceConversion, CustomResourceDefinition,
        CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
        CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
        CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps, ServiceReference,
        WebhookClientConfig, WebhookConversion,
    },
};
use kube::core::ObjectMeta;
use schemars::{
    SchemaGenerator,
    generate::{Contract, SchemaSettings},
};
use serde_json::{Value, json};

use columns::{CONDITION_READY, cluster_columns, machine_columns, ready_columns, server_columns};

use super::{
    GROUP,
    resource::VersionedKind,
    schema::{self, Form},
    v1alpha1, v1beta1, v1beta2,
};

/// Where the API server finds the conversion webhook.
#[derive(Clone, Debug, PartialEq)]
pub enum ConversionTarget {
    /// A Service in the cluster, on port 443 and path `/convert`.
    Service {
        /// Namespace of the Service.
        namespace: String,
        /// Name of the Service.
        name: String,
        /// Certificate authority in PEM; `None` if another program, such as cert-manager, fills it in.
        certificate_authority: Option<String>,
    },
    /// An address outside the cluster, path included.
    Url {
        /// The address, `https://…/convert`.
        url: String,
        /// Certificate authority in PEM.
        certificate_authority: String,
    },
    /// No webhook: the API server changes only the version's name. This is for tests of a single version. In production
    /// it would leave objects of two forms in storage.
    Unconverted,
}

impl Default for ConversionTarget {
    /// The Service of the shipped deployment.
    fn default() -> Self {
        Self::Service {
            namespace: "capo-system".into(),
            name: "capo-webhook-service".into(),
            certificate_authority: None,
        }
    }
}

/// Every custom resource definition, sorted by name.
///
/// # Errors
/// A schema of the types is not one that Kubernetes accepts, which is a defect of the program.
pub fn crds(
    conversion: &ConversionTarget,
) -> Result<Vec<CustomResourceDefinition>, serde_json::Error> {
    let convert = Some(conversion);
    Ok(vec![
        definition(
            &Names::new("osci", "Cluster"),
            vec![version::<v1alpha1::OpenStackClusterIdentity>(
                ready_columns(),
            )?],
            None,
        ),
        definition(
            &Names::new("osc", "Namespaced"),
            vec![
                older(version::<v1beta1::OpenStackCluster>(cluster_columns(
                    "status.ready",
                    "status.apiServerLoadBalancer",
                ))?),
                version::<v1beta2::OpenStackCluster>(cluster_columns(
                    CONDITION_READY,
                    "status.apiServerManagedLoadBalancer",
                ))?,
            ],
            convert,
        ),
        definition(
            &Names::new("osct", "Namespaced"),
            vec![
                older(version::<v1beta1::OpenStackClusterTemplate>(Vec::new())?),
                version::<v1beta2::OpenStackClusterTemplate>(Vec::new())?,
            ],
            convert,
        ),
        definition(
            &Names {
                short: None,
                categories: None,
                scope: "Namespaced",
            },
            vec![version::<v1alpha1::OpenStackFloatingIPPool>(
                ready_columns(),
            )?],
            None,
        ),
        definition(
            &Names::new("osm", "Namespaced"),
            vec![
                older(version::<v1beta1::OpenStackMachine>(machine_columns(
                    "status.ready",
                ))?),
                version::<v1beta2::OpenStackMachine>(machine_columns(CONDITION_READY))?,
            ],
            convert,
        ),
        definition(
            &Names::new("osmt", "Namespaced"),
            vec![
                older(version::<v1beta1::OpenStackMachineTemplate>(
                    ready_columns(),
                )?),
                version::<v1beta2::OpenStackMachineTemplate>(ready_columns())?,
            ],
            convert,
        ),
        definition(
            &Names::new("oss", "Namespaced"),
            vec![version::<v1alpha1::OpenStackServer>(server_columns())?],
            None,
        ),
    ])
}

/// A version of a kind, with what the definition needs.
struct Version {
    kind: String,
    plural: String,
    definition: CustomResourceDefinitionVersion,
}

/// A served version that is not stored.
fn older(mut version: Version) -> Version {
    version.definition.storage = false;
    version
}

/// The served and stored version `K` of a kind.
fn version<K: VersionedKind>(
    columns: Vec<CustomResourceColumnDefinition>,
) -> Result<Version, serde_json::Error> {
    let name = K::version(&()).into_owned();
    let form = if name == "v1beta2" {
        Form::V1Beta2
    } else {
        Form::Stored
    };
    let mut generator = SchemaGenerator::new(SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        // A field is required when it is always written.
        settings.contract = Contract::Serialize;
    }));
    let mut properties = json!({
        "apiVersion": {
            "type": "string",
            "description": "Group and version of this form of the object.",
        },
        "kind": {
            "type": "string",
            "description": "Kind of the object.",
        },
        "metadata": {"type": "object"},
        "spec": K::spec_schema(&mut generator),
    });
    let status = K::status_schema(&mut generator);
    let has_status = status.is_some();
    if let Some(status) = status {
        properties["status"] = status.to_value();
    }
    let mut root = json!({
        "type": "object",
        "description": K::DESCRIPTION.trim(),
        "properties": properties,
    });
    schema::finish(&mut root, form);
    if has_status {
        default_status(&mut root["properties"]["status"]);
    }
    let schema: JSONSchemaProps = serde_json::from_value(root)?;
    Ok(Version {
        kind: K::kind(&()).into_owned(),
        plural: K::plural(&()).into_owned(),
        definition: CustomResourceDefinitionVersion {
            name,
            served: true,
            storage: true,
            additional_printer_columns: Some(columns).filter(|columns| !columns.is_empty()),
            schema: Some(CustomResourceValidation {
                open_api_v3_schema: Some(schema),
            }),
            subresources: has_status.then(|| CustomResourceSubresources {
                status: Some(CustomResourceSubresourceStatus(json!({}))),
                ..Default::default()
            }),
            ..Default::default()
        },
    })
}

/// Gives an object that no controller has reconciled an observedGeneration that is never its generation, so that tools
/// which compare the two (kstatus, Flux, Argo CD) do not regard it as done. The default has to be on the status as a
/// whole, because the API server creates no parents of defaults further down.
fn default_status(status: &mut Value) {
    let ready_is_always_there = status["properties"]["ready"]["default"].is_boolean();
    status["default"] = if ready_is_always_there {
        json!({"observedGeneration": -1, "ready": false})
    } else {
        json!({"observedGeneration": -1})
    };
}

struct Names {
    short: Option<&'static str>,
    categories: Option<&'static str>,
    scope: &'static str,
}

impl Names {
    fn new(short: &'static str, scope: &'static str) -> Self {
        Self {
            short: Some(short),
            categories: Some("cluster-api"),
            scope,
        }
    }
}

/// Lets cert-manager fill in the authority if the caller names none.
fn authority_annotation(convert: Option<&ConversionTarget>) -> Option<BTreeMap<String, String>> {
    match convert? {
        ConversionTarget::Service {
            namespace,
            certificate_authority: None,
            ..
        } => Some(BTreeMap::from([(
            "cert-manager.io/inject-ca-from".to_owned(),
            format!("{namespace}/capo-serving-cert"),
        )])),
        ConversionTarget::Service { .. }
        | ConversionTarget::Url { .. }
        | ConversionTarget::Unconverted => None,
    }
}

fn definition(
    names: &Names,
    versions: Vec<Version>,
    convert: Option<&ConversionTarget>,
) -> CustomResourceDefinition {
    let kind = versions
        .first()
        .map_or_else(String::new, |version| version.kind.clone());
    let plural = versions
        .first()
        .map_or_else(String::new, |version| version.plural.clone());
    // Cluster API reads the version of a kind from the contract labels of its definition
    // (`cluster.x-k8s.io/<contract>`), and uses that of the newest contract that it knows. Kinds that it never reads
    // have no such label.
    let mut labels = BTreeMap::from([(
        "cluster.x-k8s.io/provider".to_owned(),
        "infrastructure-openstack".to_owned(),
    )]);
    for version in &versions {
        let name = &version.definition.name;
        if name != "v1alpha1" {
            labels.insert(format!("cluster.x-k8s.io/{name}"), name.clone());
        }
    }
    CustomResourceDefinition {
        metadata: ObjectMeta {
            name: Some(format!("{plural}.{GROUP}")),
            labels: Some(labels),
            annotations: authority_annotation(convert),
            ..Default::default()
        },
        spec: CustomResourceDefinitionSpec {
            group: GROUP.into(),
            scope: names.scope.into(),
            names: CustomResourceDefinitionNames {
                list_kind: Some(format!("{kind}List")),
                singular: Some(kind.to_lowercase()),
                kind,
                plural,
                short_names: names.short.map(|name| vec![name.into()]),
                categories: names.categories.map(|name| vec![name.into()]),
            },
            conversion: convert.and_then(conversion),
            versions: versions
                .into_iter()
                .map(|version| version.definition)
                .collect(),
            preserve_unknown_fields: None,
        },
        status: None,
    }
}

fn conversion(target: &ConversionTarget) -> Option<CustomResourceConversion> {
    let client_config = match target {
        ConversionTarget::Unconverted => return None,
        ConversionTarget::Service {
            namespace,
            name,
            certificate_authority,
        } => WebhookClientConfig {
            ca_bundle: certificate_authority
                .as_ref()
                .map(|pem| ByteString(pem.clone().into_bytes())),
            service: Some(ServiceReference {
                namespace: namespace.clone(),
                name: name.clone(),
                path: Some("/convert".into()),
                port: None,
            }),
            url: None,
        },
        ConversionTarget::Url {
            url,
            certificate_authority,
        } => WebhookClientConfig {
            ca_bundle: Some(ByteString(certificate_authority.clone().into_bytes())),
            service: None,
            url: Some(url.clone()),
        },
    };
    Some(CustomResourceConversion {
        strategy: "Webhook".into(),
        webhook: Some(WebhookConversion {
            client_config: Some(client_config),
            conversion_review_versions: vec!["v1".into(), "v1beta1".into()],
        }),
    })
}

/// The definitions as they are in `crds/`: the file name and the YAML text of each.
///
/// # Errors
/// A definition can't be written as YAML, which is a defect of the program.
pub fn manifests(
    conversion: &ConversionTarget,
) -> Result<Vec<(String, String)>, serde_json::Error> {
    crds(conversion)?
        .into_iter()
        .map(|definition| {
            let name = definition.spec.names.plural.clone();
            let text = serde_saphyr::to_string(&definition).map_err(serde::ser::Error::custom)?;
            Ok((format!("{name}.yaml"), text))
        })
        .collect()
}
