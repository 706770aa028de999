//! The certificate of the metrics: the one that is mounted for the webhooks, or one of our own making.

use std::{sync::Arc, time::Duration};

use rustls::{
    crypto::ring::default_provider,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    sign::CertifiedKey,
};
use tokio_rustls::TlsAcceptor;

use super::Settings;
use crate::webhooks::server::{MinimumTls, certificate::Certificates};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// Shakes hands with the certificate of now: that of `--webhook-cert-dir` as soon as and whenever there is a
/// good one, until then one that this process made and nobody can verify.
///
/// # Errors
/// When no certificate can be made.
pub(super) async fn acceptor(settings: &Settings) -> Result<TlsAcceptor, String> {
    let (what, folder) = ("metrics", settings.webhook_cert_dir.clone());
    // Counted where the webhooks look at the same files.
    let uncounted = Arc::new(());
    let certificates = match Certificates::read(what, folder.clone(), uncounted.clone()).await {
        Ok(certificates) => certificates,
        Err(error) => {
            if error.is_absence() {
                tracing::info!(
                    what,
                    "Serving a certificate of our own making until there is one"
                );
            } else {
                tracing::error!(what, %error, "The certificate can't be used; serving one of our own making");
            }
            Certificates::beginning_with(self_signed()?, what, folder, uncounted)
        }
    };
    let minimum = if settings.tls_min_version == "VersionTLS13" {
        MinimumTls::V1_3
    } else {
        MinimumTls::V1_2
    };
    let config = certificates
        .server_config(minimum)
        .map_err(|error| format!("can't serve the metrics over TLS: {error}"))?;
    tokio::spawn(certificates.watch(LOOK));
    Ok(config.into())
}

fn self_signed() -> Result<CertifiedKey, String> {
    let told = |error: &dyn std::fmt::Display| format!("can't make a certificate: {error}");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])
        .map_err(|error| told(&error))?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    CertifiedKey::from_der(vec![made.cert.der().clone()], key, &default_provider())
        .map_err(|error| told(&error))
}
