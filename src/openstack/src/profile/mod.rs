//! The profile of one cloud, from the Secret that an identityRef names: its address and its credentials.

pub(crate) mod certificates;
mod cloud_profile;
mod clouds_yaml;
pub(crate) mod credential;
mod error;
mod secret;
mod validation;

pub(crate) use cloud_profile::{BudgetKey, CredentialKey};
pub use cloud_profile::{CloudProfile, Interface};
pub use error::ProfileError;

#[cfg(test)]
mod tests;
