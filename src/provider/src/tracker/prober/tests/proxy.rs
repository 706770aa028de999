//! Requests through the proxy that the environment names.

use hyper_util::client::proxy::matcher::Matcher;

use super::{Ca, LOCAL, OWN, Server, excerpt};
use crate::tracker::prober::{Prober, TlsProber};
use capo_core::EndpointFailure;

fn proxied(proxy: &str, except: &str) -> TlsProber {
    TlsProber::with_proxies(Matcher::builder().https(proxy).no(except).build())
}

#[tokio::test]
async fn a_proxy_of_the_environment_is_used_where_it_is_meant_for_the_endpoint() {
    let ca = Ca::new();
    let acceptor = ca.acceptor(&[OWN], None);
    let server = Server::tls(LOCAL, acceptor, "HTTP/1.1 200 OK\r\n\r\nok").await;
    let proxy = Server::proxy().await;
    let url = format!("http://u:p@{}", proxy.address);
    let through = proxied(&url, "");
    let answer = through
        .readyz(server.endpoint(), ca.pem(), Vec::new())
        .await;
    assert_eq!(answer.unwrap().status, 200);
    assert_eq!(through.connect(server.endpoint()).await, Ok(()));

    // The proxy refuses all connections, but is not used for an endpoint that NO_PROXY names.
    let refuses = Server::plain("HTTP/1.1 403 Forbidden\r\n\r\n<html>\n<p>no</p>").await;
    let url = format!("http://{}", refuses.address);
    let answer = proxied(&url, "127.0.0.0/8")
        .readyz(server.endpoint(), ca.pem(), Vec::new())
        .await;
    assert_eq!(answer.unwrap().status, 200);
    assert_eq!(
        proxied(&url, "192.0.2.0/24")
            .connect(server.endpoint())
            .await,
        Err(EndpointFailure::Proxy {
            status: 403,
            body: excerpt("<html> <p>no</p>"),
        })
    );
    drop(refuses);
    tokio::task::yield_now().await;
    assert_eq!(
        proxied(&url, "").connect(server.endpoint()).await,
        Err(EndpointFailure::NoProxy(Box::new(EndpointFailure::Refused)))
    );
    let not_http = Server::plain("SSH-2.0-OpenSSH\r\n").await;
    assert_eq!(
        proxied(&format!("http://{}", not_http.address), "")
            .connect(server.endpoint())
            .await,
        Err(EndpointFailure::NoProxy(Box::new(EndpointFailure::NotHttp)))
    );
    assert_eq!(
        proxied("https://192.0.2.1", "")
            .connect(server.endpoint())
            .await,
        Err(EndpointFailure::UnsupportedProxy(excerpt("https")))
    );
}
