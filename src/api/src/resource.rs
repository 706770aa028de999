//! Root objects: the fields that all kinds share.

/// Defines a root object with its `metadata`, `spec` and, if the kind has one, `status`.
///
/// It is not derived, because an object without a spec must be readable: the schema has always allowed such objects,
/// and a single unreadable object would break the watch of all objects.
macro_rules! custom_resource {
    (
        $(#[doc = $doc:literal])+
        $kind:ident, version $version:literal, plural $plural:literal, $scope:ident,
        spec $spec:ident $(, status $status:ident)?
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        #[serde(default)]
        pub struct $kind {
            /// Name, labels, annotations and the like.
            pub metadata: kube::core::ObjectMeta,
            /// The desired state. It has its defaults where the object has no spec.
            pub spec: $spec,
            $(
                /// The observed state. Only the controller writes it.
                pub status: Option<$status>,
            )?
        }

        impl $kind {
            /// An object of this name, without a namespace and a status.
            pub fn new(name: &str, spec: $spec) -> Self {
                let mut object = Self {
                    spec,
                    ..Self::default()
                };
                object.metadata.name = Some(name.to_owned());
                object
            }
        }

        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut object = serializer.serialize_map(None)?;
                object.serialize_entry("apiVersion", concat!("infrastructure.cluster.x-k8s.io/", $version))?;
                object.serialize_entry("kind", stringify!($kind))?;
                object.serialize_entry("metadata", &self.metadata)?;
                // Every spec has a required field, so a spec that was given is never equal to the default.
                if self.spec != <$spec>::default() {
                    object.serialize_entry("spec", &self.spec)?;
                }
                $(
                    let status: Option<&$status> = self.status.as_ref();
                    if let Some(status) = status {
                        object.serialize_entry("status", status)?;
                    }
                )?
                object.end()
            }
        }

        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = $crate::resource::scope::$scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $crate::GROUP.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.metadata
            }
        }

        impl $crate::resource::VersionedKind for $kind {
            const DESCRIPTION: &str = concat!($($doc),+);

            fn spec_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                generator.subschema_for::<$spec>()
            }

            $(
                fn status_schema(generator: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
                    Some(generator.subschema_for::<$status>())
                }
            )?
        }
    };
}

pub(crate) use custom_resource;

/// The scopes of kinds.
pub(crate) mod scope {
    pub(crate) use kube::core::{
        ClusterResourceScope as Cluster, NamespaceResourceScope as Namespaced,
    };
}

/// One version of a kind, as its CRD needs it.
pub(crate) trait VersionedKind: kube::Resource<DynamicType = ()> {
    /// The description of the kind.
    const DESCRIPTION: &str;

    /// The schema of the spec, generated from the types.
    fn spec_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema;

    /// The schema of the status, for kinds that have one.
    fn status_schema(_: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        None
    }
}
