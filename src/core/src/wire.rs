//! Helpers that read single values from answers of OpenStack's services.

use serde::{Deserialize, Deserializer, Serialize};

/// The default of flags that are true unless OpenStack sends otherwise.
pub fn yes() -> bool {
    true
}

/// Reads `null` as the type's empty value, because several services send null for an empty list or string.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Parses a text into its type. A text that does not parse, null and the empty text are `None`, so that one unusual
/// value does not make a whole list unreadable.
pub fn parsed<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr,
{
    Ok(Option::<String>::deserialize(deserializer)?.and_then(|text| text.parse().ok()))
}

/// Parses a list of texts into their types, and leaves out those that do not parse.
pub fn parsed_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr,
{
    Ok(Option::<Vec<String>>::deserialize(deserializer)?
        .unwrap_or_default()
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect())
}

/// An object of which only the id is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference<T> {
    /// The id.
    pub id: T,
}
