//! Certificates: only the Secret's authorities are trusted, and the error names what is wrong.

use std::{collections::BTreeMap, sync::Arc};

use capo_core::{FailureClass, Priority};
use capo_openstack::{ClientSettings, CloudProfile, Clouds, LeaseToken, NoObserver};
use k8s_openapi::ByteString;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{RootCertStore, ServerConfig, pki_types::PrivateKeyDer, server::WebPkiClientVerifier},
};

use super::{PROJECT, faults::cloud_with_octavia, install_crypto, settings};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Accepts TLS with a certificate for `name`, valid or not. `requires_certificate` is whether the client has to
    /// show a certificate of this authority.
    fn acceptor(&self, name: &str, expired: bool, requires_certificate: bool) -> TlsAcceptor {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        if expired {
            params.not_after = rcgen::date_time_ymd(2001, 1, 1);
            params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let builder = if requires_certificate {
            let mut roots = RootCertStore::empty();
            roots.add(self.0.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
            ServerConfig::builder().with_client_cert_verifier(verifier.unwrap())
        } else {
            ServerConfig::builder().with_no_client_auth()
        };
        let config = builder
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    /// A Keystone over TLS with a certificate for `name`, valid or not.
    async fn keystone(&self, name: &str, expired: bool) -> String {
        let acceptor = self.acceptor(name, expired, false);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let mut head = vec![0; 4096];
                let _ = stream.read(&mut head).await;
                let body = format!(r#"{{"token": {{"project": {{"id": "{PROJECT}"}}}}}}"#);
                let answer = format!(
                    "HTTP/1.1 201 Created\r\nX-Subject-Token: t\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        format!("https://127.0.0.1:{port}")
    }
}

/// Signs in with `cacert` in the Secret and `ca_certs` in the settings.
async fn sign_in(
    url: &str,
    cacert: Option<&str>,
    ca_certs: Option<&str>,
    extra: &str,
) -> Result<String, String> {
    install_crypto();
    let yaml = format!(
        "clouds: {{test: {{auth: {{auth_url: '{url}', user_id: u, password: w, project_id: p}}{extra}}}}}"
    );
    let mut data = BTreeMap::from([("clouds.yaml".to_owned(), ByteString(yaml.into_bytes()))]);
    if let Some(pem) = cacert {
        data.insert("cacert".to_owned(), ByteString(pem.into()));
    }
    let settings = ClientSettings {
        ca_certs: ca_certs.map(str::to_owned),
        ..settings()
    };
    settings.validate().unwrap();
    let clouds = Clouds::new(settings, LeaseToken::unlimited(), Arc::new(NoObserver));
    let profile = CloudProfile::from_secret(&data, "test", None).unwrap();
    let cloud = clouds.cloud(profile).unwrap();
    cloud.project_id().await.map(Into::into).map_err(|error| {
        assert_eq!(error.class(), FailureClass::Transient);
        error.message().to_owned()
    })
}

#[tokio::test]
async fn the_secrets_authorities_decide() {
    install_crypto();
    let (ours, other) = (Authority::new(), Authority::new());
    let url = ours.keystone("127.0.0.1", false).await;
    let (ours, other) = (ours.0.pem(), other.0.pem());
    let untrusted = "cloud test: sign-in at 127.0.0.1: TLS: the server's certificate is from an authority that is not trusted";
    assert_eq!(sign_in(&url, Some(&ours), None, "").await.unwrap(), PROJECT);
    assert_eq!(sign_in(&url, None, Some(&ours), "").await.unwrap(), PROJECT);
    assert_eq!(
        sign_in(&url, Some(&other), Some(&ours), "")
            .await
            .unwrap_err(),
        untrusted
    );
    assert_eq!(sign_in(&url, None, None, "").await.unwrap_err(), untrusted);
    assert_eq!(
        sign_in(&url, None, None, ", verify: false").await.unwrap(),
        PROJECT
    );
}

#[tokio::test]
async fn the_error_names_what_is_wrong_with_a_certificate() {
    install_crypto();
    let authority = Authority::new();
    let pem = authority.0.pem();
    let expired = authority.keystone("127.0.0.1", true).await;
    assert_eq!(
        sign_in(&expired, Some(&pem), None, "").await.unwrap_err(),
        "cloud test: sign-in at 127.0.0.1: TLS: the server's certificate has expired"
    );
    let elsewhere = authority.keystone("keystone.example", false).await;
    assert_eq!(
        sign_in(&elsewhere, Some(&pem), None, "").await.unwrap_err(),
        "cloud test: sign-in at 127.0.0.1: TLS: the server's certificate is for another name"
    );
}

/// The behaviour of a service that speaks TLS, after it has read the head of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ending {
    /// End the connection without an answer, and without TLS's own farewell.
    Cut,
    /// Send a record that can't be decrypted.
    Garbage,
    /// End the connection with an alert, because the client shows no certificate. With TLS 1.3 the client's part of the
    /// handshake has succeeded by then, so that the request may be under way.
    Alert,
}

/// A service that ends each connection in this way.
async fn ends_with(authority: &Authority, ending: Ending) -> String {
    let acceptor = authority.acceptor("127.0.0.1", false, ending == Ending::Alert);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A failed handshake has sent its alert.
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut head = vec![0; 4096];
            let _ = stream.read(&mut head).await;
            let (mut tcp, _) = stream.into_inner();
            if ending == Ending::Garbage {
                let application_data = [&[23, 3, 3, 0, 32][..], &[7; 32]].concat();
                let _ = tcp.write_all(&application_data).await;
                let _ = tcp.read(&mut head).await;
            }
        }
    });
    format!("https://127.0.0.1:{port}")
}

#[tokio::test]
async fn a_change_may_have_been_made_where_tls_fails_after_the_handshake() {
    install_crypto();
    let (ours, other) = (Authority::new(), Authority::new());
    let lost = "the connection broke before the answer was complete";
    let alert = "the service ended the connection with a TLS alert";
    let untrusted = "TLS: the server's certificate is from an authority that is not trusted";
    for (ending, trusted, maybe_done, text) in [
        (Ending::Cut, &ours, true, lost),
        (Ending::Garbage, &ours, true, lost),
        (Ending::Alert, &ours, true, alert),
        (Ending::Cut, &other, false, untrusted),
    ] {
        let url = ends_with(&ours, ending).await;
        let settings = ClientSettings {
            ca_certs: Some(trusted.0.pem()),
            ..settings()
        };
        let (_keystone, cloud, _) = cloud_with_octavia(&url, settings).await;
        let error = cloud
            .delete_load_balancer(&"lb1".into(), Priority::Gate)
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("loadbalancer_delete: load-balancer: {text}"),
            "{ending:?}"
        );
        assert_eq!(error.maybe_done(), maybe_done, "{ending:?}");
    }
}
