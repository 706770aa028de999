//! Closed sets of words as they go over the wire.

/// Defines an enum whose variants are words on the wire. A word that isn't in the set is kept as
/// `Unknown`, so that no object becomes unreadable because another version knows more words.
///
/// A default is given by `default Variant` after the name; without one it is `Unknown` of nothing.
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident, default $default:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $crate::api::wire::wire_enum!(@define $(#[$meta])* $name { $($(#[$variant_meta])* $variant = $word,)+ });

        impl Default for $name {
            fn default() -> Self {
                Self::$default
            }
        }
    };
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $crate::api::wire::wire_enum!(@define $(#[$meta])* $name { $($(#[$variant_meta])* $variant = $word,)+ });

        impl Default for $name {
            fn default() -> Self {
                Self::Unknown(String::new())
            }
        }
    };
    (@define $(#[$meta:meta])* $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
            /// A word that this version doesn't know.
            Unknown(String),
        }

        impl $name {
            /// The word on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Unknown(word) => word,
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                match word.as_str() {
                    $($word => Self::$variant,)+
                    _ => Self::Unknown(word),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::from)
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "enum": [$($word),+]})
            }
        }
    };
}

pub(crate) use wire_enum;
