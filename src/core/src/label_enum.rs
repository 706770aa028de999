//! Enums with one word for each value.

/// Defines an enum of values with the word that metrics, conditions, events or the command line show for each. With
/// `, all` after its name it has the constant `ALL` of all values, in the order of declaration.
#[macro_export]
macro_rules! label_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident, all {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $crate::label_enum! {
            $(#[$meta])*
            $vis enum $name {
                $($(#[$variant_meta])* $variant = $word,)+
            }
        }

        impl $name {
            /// All values, in the order of declaration.
            $vis const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $vis enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// The word of the value.
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}
