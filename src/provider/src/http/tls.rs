//! TLS for listeners whose certificate may not be mounted yet.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::{ValueEnum, builder::PossibleValue};
use rustls::{
    SupportedProtocolVersion,
    crypto::ring::default_provider,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use tokio_rustls::TlsAcceptor;

use super::Certificates;

/// The time between two reads of the certificate's files.
const POLL: Duration = Duration::from_secs(5);

/// The oldest TLS version that is accepted (`--tls-min-version`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MinimumTls {
    /// TLS 1.2 and 1.3.
    #[default]
    V1_2,
    /// TLS 1.3 only.
    V1_3,
}

impl MinimumTls {
    /// The TLS versions that are accepted.
    pub(super) fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        static FROM_1_2: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        static FROM_1_3: [&SupportedProtocolVersion; 1] = [&TLS13];
        match self {
            Self::V1_2 => &FROM_1_2,
            Self::V1_3 => &FROM_1_3,
        }
    }
}

impl ValueEnum for MinimumTls {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::V1_2, Self::V1_3]
    }

    /// Go's names of the versions, as in CAPO's flag.
    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Self::V1_2 => "VersionTLS12",
            Self::V1_3 => "VersionTLS13",
        }))
    }
}

/// TLS can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No certificate could be generated.
    #[error("can't generate a certificate: {0}")]
    Generate(#[from] rcgen::Error),
    /// The cryptography provider refuses the settings or the generated key.
    #[error("can't set up TLS: {0}")]
    Settings(#[from] rustls::Error),
}

/// Accepts TLS with the certificate in `folder` whenever there is a usable one, and otherwise with a generated
/// certificate that no client can verify.
pub(crate) async fn mounted_or_self_signed(
    purpose: &'static str,
    folder: PathBuf,
    minimum: MinimumTls,
) -> Result<TlsAcceptor, TlsError> {
    // The webhook server counts the reads of the same files, so they are not counted here as well.
    let uncounted = Arc::new(());
    let read = Certificates::read(purpose, folder.clone(), uncounted.clone()).await;
    let certificates = match read {
        Ok(certificates) => certificates,
        Err(error) => {
            if error.is_absence() {
                tracing::info!(
                    purpose,
                    "Serving a generated certificate until one is mounted"
                );
            } else {
                tracing::error!(purpose, %error, "The mounted certificate can't be used; serving a generated one");
            }
            Certificates::starting_with(self_signed()?, purpose, folder, uncounted)
        }
    };
    let config = certificates.server_config(minimum)?;
    tokio::spawn(certificates.watch(POLL));
    Ok(config.into())
}

fn self_signed() -> Result<CertifiedKey, TlsError> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    Ok(CertifiedKey::from_der(
        vec![made.cert.der().clone()],
        key,
        &default_provider(),
    )?)
}
