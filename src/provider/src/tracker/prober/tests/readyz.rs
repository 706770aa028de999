//! Which answers of `/readyz` count, and which message each failure has.

use std::{net::IpAddr, time::Duration};

use super::{Ca, LOCAL, OWN, SIX, Server, ask, excerpt, prober};
use crate::tracker::prober::{Prober, TIME_LIMIT};
use capo_core::{Endpoint, EndpointFailure, Excerpt};

#[tokio::test]
async fn an_answer_has_its_status_and_the_addresses_that_its_certificate_names() {
    let ca = Ca::new();
    for (status, served) in [
        ("200 OK", true),
        ("401 Unauthorized", true),
        ("403 Forbidden", true),
        ("404 Not Found", false),
        ("429 Too Many Requests", false),
        ("500 Internal Server Error", false),
    ] {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 8\r\n\r\n[+]p\ning");
        let acceptor = ca.acceptor(&["kubernetes", OWN], None);
        let server = Server::tls(LOCAL, acceptor, answer.leak()).await;
        let answer = ask(&server, &ca).await.unwrap();
        assert_eq!(status.split(' ').next().unwrap(), answer.status.to_string());
        assert_eq!(answer.is_served(), served, "{status}");
        assert_eq!(answer.named, [OWN.parse::<IpAddr>().unwrap()]);
        assert_eq!(answer.body, excerpt("[+]p ing"));
    }
}

/// The certificate does not name the endpoint, and the chunked body is longer than any message.
#[tokio::test]
async fn the_certificate_need_not_name_the_endpoint_and_the_body_is_cut() {
    let ca = Ca::new();
    let body = "0123456789".repeat(1_000);
    let answer = format!(
        "HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let acceptor = ca.acceptor(&["somewhere.example.org"], None);
    let server = Server::tls(LOCAL, acceptor, answer.leak()).await;
    let answer = ask(&server, &ca).await.unwrap();
    assert_eq!((answer.status, answer.named.len()), (503, 0));
    assert_eq!(answer.body.to_string(), body[..Excerpt::LIMIT]);
}

#[tokio::test]
async fn an_endpoint_of_ipv6_is_reached_and_a_name_that_has_both_kinds_of_address_too() {
    let ca = Ca::new();
    let acceptor = ca.acceptor(&[OWN], None);
    let server = Server::tls(SIX, acceptor, "HTTP/1.1 200 OK\r\n\r\nok").await;
    assert_eq!(ask(&server, &ca).await.unwrap().status, 200);
    let bracketed = Endpoint {
        host: format!("[{SIX}]"),
        ..server.endpoint()
    };
    let answer = prober().readyz(bracketed, ca.pem(), Vec::new()).await;
    assert_eq!(answer.unwrap().status, 200);
    // The test's host may resolve to either address first; one of them answers.
    let acceptor = ca.acceptor(&[OWN], None);
    let server = Server::tls(LOCAL, acceptor, "HTTP/1.1 200 OK\r\n\r\nok").await;
    let named = Endpoint {
        host: "localhost".to_owned(),
        ..server.endpoint()
    };
    let answer = prober().readyz(named, ca.pem(), Vec::new()).await;
    assert_eq!(answer.unwrap().status, 200);
}

#[tokio::test]
async fn every_way_to_fail_has_its_name() {
    let (ca, other) = (Ca::new(), Ca::new());
    let ok = "HTTP/1.1 200 OK\r\n\r\n";

    let server = Server::tls(LOCAL, other.acceptor(&[OWN], None), ok).await;
    assert_eq!(ask(&server, &ca).await, Err(EndpointFailure::OtherCa));

    let server = Server::tls(LOCAL, ca.acceptor(&[OWN], Some(2020)), ok).await;
    let failure = ask(&server, &ca).await;
    assert!(
        matches!(&failure, Err(EndpointFailure::BadCertificate(detail)) if detail.to_string().contains("expired")),
        "{failure:?}"
    );

    let server = Server::plain("HTTP/1.1 400 Bad Request\r\n\r\n<html>").await;
    assert_eq!(ask(&server, &ca).await, Err(EndpointFailure::NotTls));

    let server = Server::tls(LOCAL, ca.acceptor(&[OWN], None), "SSH-2.0-OpenSSH\r\n").await;
    assert_eq!(ask(&server, &ca).await, Err(EndpointFailure::NotHttp));

    let server = Server::tls(LOCAL, ca.acceptor(&[OWN], None), "").await;
    assert_eq!(ask(&server, &ca).await, Err(EndpointFailure::Closed));

    let server = Server::start(LOCAL, |stream| async move { drop(stream) }).await;
    assert_eq!(ask(&server, &ca).await, Err(EndpointFailure::Closed));

    let endpoint = server.endpoint();
    drop(server);
    tokio::task::yield_now().await;
    let refused = prober()
        .readyz(endpoint.clone(), ca.pem(), Vec::new())
        .await;
    assert_eq!(refused, Err(EndpointFailure::Refused));
    for (ca, failure) in [
        ("", EndpointFailure::NoCaSecret),
        ("no PEM", EndpointFailure::UnreadableCa),
    ] {
        let answer = prober().readyz(endpoint.clone(), ca.into(), Vec::new());
        assert_eq!(answer.await, Err(failure), "{ca}");
    }

    let nowhere = Endpoint {
        host: "no-such-name.invalid".to_owned(),
        port: 6443,
    };
    let failure = prober().readyz(nowhere, ca.pem(), Vec::new()).await;
    assert!(
        matches!(failure, Err(EndpointFailure::NoAddress(_))),
        "{failure:?}"
    );
}

#[tokio::test]
async fn what_never_answers_takes_no_longer_than_the_time_limit() {
    let ca = Ca::new();
    let server = Server::start(LOCAL, |stream| async move {
        tokio::time::sleep(Duration::from_mins(1)).await;
        drop(stream);
    })
    .await;
    assert_eq!(
        ask(&server, &ca).await,
        Err(EndpointFailure::TimedOut(TIME_LIMIT))
    );
}
