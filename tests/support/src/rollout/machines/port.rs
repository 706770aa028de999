//! What listens at the address of a machine.

use std::{net::IpAddr, time::Duration};

use tokio::net::{TcpListener, TcpStream};

use crate::{
    env::{Error, Guarded},
    rollout::workload_cluster::PORT,
};

/// The pause between two checks whether an API server listens.
const LISTENS: Duration = Duration::from_millis(10);

pub(super) async fn listen(address: IpAddr, port: u16) {
    let listener = TcpListener::bind((address, port)).await.unwrap();
    loop {
        // Health checks and tests need only a connection.
        let _ = listener.accept().await;
    }
}

/// Freezes an API server when it begins to listen, so that connections are accepted and wait for an answer.
pub(super) async fn keep_silent(
    api_server: &Guarded,
    address: IpAddr,
    silence: Duration,
) -> Result<(), Error> {
    while TcpStream::connect((address, PORT)).await.is_err() {
        tokio::time::sleep(LISTENS).await;
    }
    api_server.signal("STOP")?;
    tokio::time::sleep(silence).await;
    api_server.signal("CONT")
}
