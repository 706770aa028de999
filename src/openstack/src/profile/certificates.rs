//! The certificate authorities of a Secret.

use reqwest::Certificate;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use crate::profile::error::ProfileError;

/// The largest size of certificate authorities, in bytes. It is more than twice the size of the bundle that Linux
/// distributions install, which has about 220 kB.
const LARGEST_AUTHORITIES: usize = 512 * 1024;

/// Checks the certificates in `pem` and returns them as text.
pub(crate) fn authorities(pem: &[u8]) -> Result<String, ProfileError> {
    if pem.len() > LARGEST_AUTHORITIES {
        return Err(ProfileError::TooLarge {
            key: "cacert",
            found: pem.len(),
            limit: LARGEST_AUTHORITIES,
        });
    }
    let text = std::str::from_utf8(pem).map_err(|_| ProfileError::NotText { key: "cacert" })?;
    certificates(text)?;
    Ok(text.to_owned())
}

/// The certificates in `pem`. There must be at least one, and each must be readable.
pub(crate) fn certificates(pem: &str) -> Result<Vec<Certificate>, ProfileError> {
    let bad = |problem: String| ProfileError::BadAuthorities { problem };
    let mut roots = rustls::RootCertStore::empty();
    let mut certificates = Vec::new();
    for (index, item) in CertificateDer::pem_slice_iter(pem.as_bytes()).enumerate() {
        let der = item.map_err(|_| bad(format!("block {} is not valid PEM", index + 1)))?;
        let unreadable = || bad(format!("certificate {} can't be read", index + 1));
        roots.add(der.clone()).map_err(|_| unreadable())?;
        certificates.push(Certificate::from_der(&der).map_err(|_| unreadable())?);
    }
    if certificates.is_empty() {
        return Err(bad("it has no CERTIFICATE block".to_owned()));
    }
    Ok(certificates)
}
