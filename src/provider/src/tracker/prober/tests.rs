//! Requests through an endpoint, answered by servers on the loopback interface.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hyper_util::client::proxy::matcher::Matcher;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpSocket, TcpStream},
    time::{Instant, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use super::{Prober, TIME_LIMIT, TlsProber, connect, in_time};
use capo_core::{Endpoint, EndpointAnswer, EndpointFailure, Excerpt};

type Answer = Result<EndpointAnswer, EndpointFailure>;

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SIX: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
const OWN: &str = "10.6.0.14";

/// A certificate authority.
struct Ca(CertifiedIssuer<'static, KeyPair>);

impl Ca {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn pem(&self) -> Arc<str> {
        self.0.pem().into()
    }

    fn acceptor(&self, names: &[&str], until: Option<i32>) -> TlsAcceptor {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        if let Some(year) = until {
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(certificate.pem().as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap(),
            )
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Serves every connection with `serve` until it is dropped.
struct Server {
    address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

impl Server {
    async fn start<F>(address: IpAddr, serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
        Self {
            address,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// An API server that answers `answer` to everything.
    async fn tls(address: IpAddr, acceptor: TlsAcceptor, answer: &'static str) -> Self {
        Self::start(address, move |stream| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut head = vec![0; 4096];
                let read = stream.read(&mut head).await.unwrap_or_default();
                assert!(head[..read].starts_with(b"GET /readyz HTTP/1.1\r\n"));
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        })
        .await
    }

    /// A server that sends these bytes without TLS.
    async fn plain(answer: &'static str) -> Self {
        Self::start(LOCAL, move |mut stream| async move {
            let mut head = vec![0; 4096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        })
        .await
    }

    /// A proxy that connects to any requested address.
    async fn proxy() -> Self {
        Self::start(LOCAL, |mut stream| async move {
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap();
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            assert!(
                head.contains("Proxy-Authorization: Basic dTpw\r\n"),
                "{head}"
            );
            let target = head.split(' ').nth(1).unwrap();
            let mut target = TcpStream::connect(target).await.unwrap();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nVia: x\r\n\r\n").await;
            let _ = copy_bidirectional(&mut stream, &mut target).await;
        })
        .await
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint {
            host: self.address.ip().to_string(),
            port: self.address.port(),
        }
    }
}

/// A prober that uses no proxy, whatever the environment of the test contains.
fn prober() -> TlsProber {
    TlsProber::with_proxies(Matcher::builder().build())
}

async fn ask(server: &Server, ca: &Ca) -> Answer {
    let addresses = vec![OWN.parse().unwrap(), "10.6.0.15".parse().unwrap()];
    prober()
        .readyz(server.endpoint(), ca.pem(), addresses)
        .await
}

fn excerpt(text: &str) -> Excerpt {
    Excerpt::of(text)
}

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
    assert_eq!(
        ask(&server, &ca).await,
        Err(EndpointFailure::OtherAuthority)
    );

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
        ("", EndpointFailure::NoAuthority),
        ("no PEM", EndpointFailure::UnreadAuthority),
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

/// A port at which connections are neither accepted nor refused, as behind a firewall that drops them: its queue is full.
struct Silent {
    address: SocketAddr,
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl Silent {
    async fn at(address: IpAddr) -> Self {
        let socket = match address {
            IpAddr::V4(_) => TcpSocket::new_v4(),
            IpAddr::V6(_) => TcpSocket::new_v6(),
        }
        .unwrap();
        socket.bind((address, 0).into()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queue = Vec::new();
        let waits = Duration::from_millis(200);
        while let Ok(stream) = timeout(waits, TcpStream::connect(address)).await {
            queue.push(stream.unwrap());
        }
        Self {
            address,
            _listener: listener,
            _queue: queue,
        }
    }
}

/// A port at which nothing listens.
async fn closed(address: IpAddr) -> SocketAddr {
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    listener.local_addr().unwrap()
}

/// The connection to a host that has these addresses, as a request makes it.
async fn first_of(addresses: [SocketAddr; 2]) -> Result<SocketAddr, EndpointFailure> {
    let end = Instant::now() + TIME_LIMIT;
    let stream = in_time(TIME_LIMIT, connect::first_of(&addresses, end)).await?;
    Ok(stream.peer_addr().unwrap())
}

/// The resolver of this host need not know a name with addresses of both families, so they are given.
#[tokio::test]
async fn a_host_is_reached_where_only_one_of_its_two_families_answers() {
    for (one, other) in [(LOCAL, SIX), (SIX, LOCAL)] {
        let server = Server::start(one, |stream| async move { drop(stream) }).await;
        let (silent, closed) = (Silent::at(other).await, closed(other).await);
        for dead in [silent.address, closed] {
            for addresses in [[dead, server.address], [server.address, dead]] {
                let reached = first_of(addresses).await;
                assert_eq!(reached, Ok(server.address), "{addresses:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_host_that_answers_in_neither_family_is_told_by_how_it_fails() {
    let (four, six) = (Silent::at(LOCAL).await, Silent::at(SIX).await);
    let message = async |addresses| first_of(addresses).await.unwrap_err().to_string();
    let (silent, refused) = ("no answer within 3 s", "the connection was refused");
    assert_eq!(message([four.address, six.address]).await, silent);
    assert_eq!(message([closed(LOCAL).await, six.address]).await, silent);
    let closed = [closed(LOCAL).await, closed(SIX).await];
    assert_eq!(message(closed).await, refused);

    // The same through the whole request and through a connection that is only to stay open.
    let endpoint = Endpoint {
        host: four.address.ip().to_string(),
        port: four.address.port(),
    };
    let ca = Ca::new().pem();
    let answer = prober().readyz(endpoint.clone(), ca, Vec::new()).await;
    assert_eq!(answer.unwrap_err().to_string(), silent);
    let opened = prober().connect(endpoint).await;
    assert_eq!(opened.unwrap_err().to_string(), silent);
}

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

/// A load balancer accepts a connection and closes it when no member accepts it.
#[tokio::test]
async fn a_tcp_connection_counts_only_while_it_stays_open() {
    let open = Server::start(LOCAL, |stream| async move {
        tokio::time::sleep(Duration::from_mins(1)).await;
        drop(stream);
    })
    .await;
    let greets = Server::plain("").await;
    let closed = Server::start(LOCAL, |stream| async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(stream);
    })
    .await;
    assert_eq!(prober().connect(open.endpoint()).await, Ok(()));
    assert_eq!(prober().connect(greets.endpoint()).await, Ok(()));
    assert_eq!(
        prober().connect(closed.endpoint()).await,
        Err(EndpointFailure::Closed)
    );
    let endpoint = closed.endpoint();
    drop(closed);
    tokio::task::yield_now().await;
    assert_eq!(
        prober().connect(endpoint).await,
        Err(EndpointFailure::Refused)
    );
}
