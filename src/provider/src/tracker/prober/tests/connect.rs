//! Connections to hosts that have several addresses, and connections that must stay open.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{Instant, timeout},
};

use super::{Ca, LOCAL, SIX, Server, prober};
use crate::tracker::prober::{Prober, TIME_LIMIT, connect, in_time};
use capo_core::{Endpoint, EndpointFailure};

/// A port at which connections are neither accepted nor refused, because its queue is full. A firewall that drops
/// packets has the same effect.
struct UnansweringServer {
    address: SocketAddr,
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl UnansweringServer {
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

/// An address at which nothing listens.
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

/// The resolver of this host may not know a name with addresses of both families, so the addresses are given.
#[tokio::test]
async fn a_host_is_reached_where_only_one_of_its_two_families_answers() {
    for (one, other) in [(LOCAL, SIX), (SIX, LOCAL)] {
        let server = Server::start(one, |stream| async move { drop(stream) }).await;
        let (silent, closed) = (UnansweringServer::at(other).await, closed(other).await);
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
    let (four, six) = (
        UnansweringServer::at(LOCAL).await,
        UnansweringServer::at(SIX).await,
    );
    let message = async |addresses| first_of(addresses).await.unwrap_err().to_string();
    let (silent, refused) = ("no answer within 3 s", "the connection was refused");
    assert_eq!(message([four.address, six.address]).await, silent);
    assert_eq!(message([closed(LOCAL).await, six.address]).await, silent);
    let closed = [closed(LOCAL).await, closed(SIX).await];
    assert_eq!(message(closed).await, refused);

    // The whole request, and a connection that only has to stay open, behave in the same way.
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
