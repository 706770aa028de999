//! Rows by id with a few equality indexes, so that lists stay fast with thousands of clusters.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use crate::wire::{Row, text};

/// The indexed attributes. Each is a plain string in every row.
const INDEXED: [&str; 6] = [
    "name",
    "network_id",
    "device_id",
    "port_id",
    "project_id",
    "security_group_id",
];

/// One kind of resource.
#[derive(Debug, Default, Clone)]
pub struct Table {
    rows: BTreeMap<String, Row>,
    index: HashMap<(&'static str, String), BTreeSet<String>>,
}

impl Table {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds or replaces a row, keyed by its `id`.
    pub fn put(&mut self, row: Row) {
        let id = text(&row, "id").to_owned();
        self.remove(&id);
        for attribute in INDEXED {
            if let Some(Value::String(value)) = row.get(attribute) {
                self.index
                    .entry((attribute, value.clone()))
                    .or_default()
                    .insert(id.clone());
            }
        }
        self.rows.insert(id, row);
    }

    /// Takes a row out.
    pub fn remove(&mut self, id: &str) -> Option<Row> {
        let row = self.rows.remove(id)?;
        for attribute in INDEXED {
            if let Some(Value::String(value)) = row.get(attribute) {
                let key = (attribute, value.clone());
                if let Some(ids) = self.index.get_mut(&key) {
                    ids.remove(id);
                    if ids.is_empty() {
                        self.index.remove(&key);
                    }
                }
            }
        }
        Some(row)
    }

    /// One row.
    pub fn get(&self, id: &str) -> Option<&Row> {
        self.rows.get(id)
    }

    /// Changes one row in place and keeps the indexes right. False when there is no such row.
    pub fn change(&mut self, id: &str, change: impl FnOnce(&mut Row)) -> bool {
        let Some(mut row) = self.remove(id) else {
            return false;
        };
        change(&mut row);
        self.put(row);
        true
    }

    /// All rows by id.
    pub fn all(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// Rows whose indexed attribute equals a value.
    pub fn find<'a>(
        &'a self,
        attribute: &'static str,
        value: &str,
    ) -> impl Iterator<Item = &'a Row> + use<'a> {
        debug_assert!(INDEXED.contains(&attribute));
        self.index
            .get(&(attribute, value.to_owned()))
            .into_iter()
            .flatten()
            .filter_map(|id| self.rows.get(id))
    }

    /// The smallest set of rows that can match a query: by id, or else by the rarest indexed attribute, or else all
    /// rows.
    pub fn candidates(&self, query: &[(String, String)]) -> Vec<&Row> {
        let ids: Vec<&String> = query
            .iter()
            .filter(|(key, _)| key == "id")
            .map(|(_, id)| id)
            .collect();
        if !ids.is_empty() {
            return ids.into_iter().filter_map(|id| self.rows.get(id)).collect();
        }
        let narrowest = INDEXED
            .iter()
            .filter_map(|attribute| {
                let values: Vec<&String> = query
                    .iter()
                    .filter(|(key, _)| key == attribute)
                    .map(|(_, value)| value)
                    .collect();
                (!values.is_empty()).then(|| {
                    values
                        .into_iter()
                        .filter_map(|value| self.index.get(&(*attribute, value.clone())))
                        .flatten()
                        .collect::<BTreeSet<_>>()
                })
            })
            .min_by_key(BTreeSet::len);
        match narrowest {
            Some(ids) => ids.into_iter().filter_map(|id| self.rows.get(id)).collect(),
            None => self.rows.values().collect(),
        }
    }
}
