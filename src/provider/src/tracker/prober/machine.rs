//! `GET /readyz` at a machine's own address, under the cluster's CA.

use std::{net::SocketAddr, sync::Arc};

use rustls::CertificateError;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use capo_core::Endpoint;
use capo_gate::event::ProbeOutcome;

use super::{readyz, tls};

pub(super) async fn probe(target: SocketAddr, ca: &str) -> ProbeOutcome {
    let Some(config) = tls::strict_config(ca) else {
        return ProbeOutcome::NoConnection;
    };
    let connector = TlsConnector::from(Arc::new(config));
    for name in tls::machine_names(target.ip()) {
        let stream = match TcpStream::connect(target).await {
            Ok(stream) => stream,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                return ProbeOutcome::Refused;
            }
            Err(_) => return ProbeOutcome::NoConnection,
        };
        match connector.connect(name, stream).await {
            Ok(stream) => {
                let target = Endpoint {
                    host: target.ip().to_string(),
                    port: target.port(),
                };
                return match readyz::get(stream, &target).await {
                    Ok((status, _)) => outcome(status),
                    Err(capo_core::EndpointFailure::NotHttp) => ProbeOutcome::Answered,
                    Err(_) => ProbeOutcome::NoConnection,
                };
            }
            Err(error) => match certificate_error(&error) {
                Some(CertificateKind::OtherName) => {}
                Some(CertificateKind::Wrong) => return ProbeOutcome::WrongCertificate,
                None => return ProbeOutcome::NoConnection,
            },
        }
    }
    // The cluster's CA issued the certificate, but for another name: the answer proves nothing about the machine.
    ProbeOutcome::Answered
}

enum CertificateKind {
    OtherName,
    Wrong,
}

fn certificate_error(error: &std::io::Error) -> Option<CertificateKind> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    match error {
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => Some(CertificateKind::OtherName),
        rustls::Error::InvalidCertificate(_) => Some(CertificateKind::Wrong),
        _ => None,
    }
}

fn outcome(status: u16) -> ProbeOutcome {
    match status {
        200 => ProbeOutcome::Ready,
        500..=599 => ProbeOutcome::NotReady,
        _ => ProbeOutcome::Answered,
    }
}

#[cfg(test)]
mod tests {
    use super::{ProbeOutcome, outcome};

    #[test]
    fn only_200_is_ready_and_only_5xx_is_evidence_against() {
        for (status, expected) in [
            (200, ProbeOutcome::Ready),
            (500, ProbeOutcome::NotReady),
            (503, ProbeOutcome::NotReady),
            (401, ProbeOutcome::Answered),
            (403, ProbeOutcome::Answered),
            (404, ProbeOutcome::Answered),
        ] {
            assert_eq!(outcome(status), expected, "{status}");
        }
    }
}
