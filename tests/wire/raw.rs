//! A server that misbehaves below HTTP.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// The behaviour of the server after it has read the head of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Behaviour {
    /// Never answer.
    Hang,
    /// Send the head of an answer and no body.
    StallInBody,
    /// Send one byte of the body every quarter of a second, without an end.
    Drip,
    /// End the connection with a reset.
    Reset,
    /// End the connection in the middle of the body.
    Truncate,
    /// Announces 100 MB.
    Announce,
    /// Send chunks without an end.
    Flood,
}

/// A server on loopback. Dropping it ends the server.
pub(crate) struct RawServer {
    pub(crate) url: String,
    pub(crate) connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) async fn serve(behaviour: Behaviour) -> RawServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    let task = tokio::spawn(async move {
        let mut open = tokio::task::JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::SeqCst);
            open.spawn(async move {
                let _ = behave(stream, behaviour).await;
            });
        }
    });
    RawServer {
        url,
        connections,
        task,
    }
}

async fn behave(mut stream: TcpStream, behaviour: Behaviour) -> std::io::Result<()> {
    let mut head = vec![0; 4096];
    let _ = stream.read(&mut head).await?;
    let answer = |length: &str| {
        format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{length}\r\n\r\n{{")
    };
    match behaviour {
        Behaviour::Hang => std::future::pending().await,
        Behaviour::StallInBody => {
            stream
                .write_all(answer("Content-Length: 100").as_bytes())
                .await?;
            std::future::pending().await
        }
        Behaviour::Drip => {
            stream
                .write_all(answer("Content-Length: 1000").as_bytes())
                .await?;
            loop {
                stream.write_all(b" ").await?;
                tokio::time::sleep(std::time::Duration::from_millis(250)).await;
            }
        }
        Behaviour::Reset => stream.set_zero_linger(),
        Behaviour::Truncate => {
            stream
                .write_all(answer("Content-Length: 100").as_bytes())
                .await
        }
        Behaviour::Announce => {
            stream
                .write_all(answer("Content-Length: 100000000").as_bytes())
                .await?;
            std::future::pending().await
        }
        Behaviour::Flood => {
            let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                .await?;
            loop {
                stream.write_all(chunk.as_bytes()).await?;
            }
        }
    }
}
