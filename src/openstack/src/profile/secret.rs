//! Turns the Secret that an identityRef names into a profile.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;

use crate::profile::{
    certificates, cloud_profile::CloudProfile, clouds_yaml, error::ProfileError,
    validation::validated,
};

impl CloudProfile {
    /// Reads the profile of `cloud_name` from a Secret's `clouds.yaml` and `cacert`. `region`, from the identityRef,
    /// takes precedence over `region_name`. File paths and the environment are never read. [`CloudProfile::remarks`]
    /// lists the ignored settings.
    pub fn from_secret(
        data: &BTreeMap<String, ByteString>,
        cloud_name: &str,
        region: Option<&str>,
    ) -> Result<Self, ProfileError> {
        let entry = clouds_yaml::read(clouds_yaml_of(data)?, cloud_name)?;
        let mut profile = validated(cloud_name, entry)?;
        if let Some(region) = region.filter(|region| !region.is_empty()) {
            profile.region = Some(region.to_owned());
        }
        if let Some(pem) = data.get("cacert").filter(|pem| !pem.0.is_empty()) {
            profile.authorities = Some(certificates::authorities(&pem.0)?);
        }
        Ok(profile)
    }

    /// Checks that a Secret has a `clouds.yaml` with at least one entry that [`CloudProfile::from_secret`] can read.
    /// The error is that of the first entry.
    pub fn check_secret(data: &BTreeMap<String, ByteString>) -> Result<(), ProfileError> {
        let yaml = clouds_yaml_of(data)?;
        let mut refused = None;
        for name in clouds_yaml::names(yaml)? {
            match Self::from_secret(data, &name, None) {
                Ok(_) => return Ok(()),
                Err(problem) => refused = refused.or(Some(problem)),
            }
        }
        Err(refused.unwrap_or_else(|| ProfileError::Malformed {
            problem: "it names no cloud under `clouds`".to_owned(),
        }))
    }
}

fn clouds_yaml_of(data: &BTreeMap<String, ByteString>) -> Result<&[u8], ProfileError> {
    let yaml = data.get("clouds.yaml").map(|yaml| yaml.0.as_slice());
    yaml.ok_or_else(|| ProfileError::NoCloudsYaml {
        found: data.keys().cloned().collect(),
    })
}
