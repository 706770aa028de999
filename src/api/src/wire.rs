//! Closed sets of strings in the custom resources.

/// [`capo_core::wire_enum`] with a schema that allows only the strings of the set.
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident $(, default $default:ident)? { $($variants:tt)+ }
    ) => {
        capo_core::wire_enum! {
            $(#[$meta])*
            pub enum $name $(, default $default)? { $($variants)+ }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "enum": $name::WORDS})
            }
        }
    };
}

pub(crate) use wire_enum;
