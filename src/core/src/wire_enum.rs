//! Closed sets of strings on the wire.

/// Defines an enum whose variants are strings on the wire. A string that is not in the set is kept in `Unknown`, so
/// that an answer stays readable when a later version of the service sends a new string. `null` reads as an empty
/// unknown string.
///
/// The default is the variant named by `default Variant` after the enum's name; without one it is `Unknown` of an empty
/// string.
#[macro_export]
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident, default $default:ident { $($variants:tt)+ }
    ) => {
        $crate::wire_enum!(@define $(#[$meta])* $name { $($variants)+ });

        impl Default for $name {
            fn default() -> Self {
                Self::$default
            }
        }
    };
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $($variants:tt)+ }
    ) => {
        $crate::wire_enum!(@define $(#[$meta])* $name { $($variants)+ });

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
            /// A string that this version does not know, as it was sent.
            Unknown(String),
        }

        impl $name {
            /// All strings of the set, in the order of declaration.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The string on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Unknown(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    other => Self::Unknown(other.to_owned()),
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
                let word = <Option<String> as serde::Deserialize>::deserialize(deserializer)?;
                Ok(Self::from(word.unwrap_or_default()))
            }
        }
    };
}
