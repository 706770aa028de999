//! The manager as a process, started as an operator would start it.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;

use super::{Error, Guarded, guarded::Program, kubernetes::free_port};
use crate::waiting::PATIENCE;

/// The time limit for one request to the manager.
const REQUEST: Duration = Duration::from_secs(30);

/// A running `capo-rs`; killed when dropped, and with this process.
pub struct Manager {
    /// The process.
    pub process: Guarded,
    health: u16,
    diagnostics: u16,
}

impl Manager {
    /// Starts it with `kubeconfig` and `arguments`; its log is `manager.log` in `folder`.
    pub fn start(folder: &Path, kubeconfig: &Path, arguments: &[&str]) -> Result<Self, Error> {
        Self::start_with(folder, kubeconfig, arguments, Vec::new())
    }

    /// The same with these variables in its environment.
    pub fn start_with(
        folder: &Path,
        kubeconfig: &Path,
        arguments: &[&str],
        mut variables: Vec<(String, String)>,
    ) -> Result<Self, Error> {
        variables.push(("NO_COLOR".to_owned(), "1".to_owned()));
        let (health, diagnostics) = (free_port()?, free_port()?);
        let mut all = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--health-addr=127.0.0.1:{health}"),
            format!("--diagnostics-address=127.0.0.1:{diagnostics}"),
            "--v=4".to_owned(),
        ];
        if !arguments.contains(&"--insecure-diagnostics=false") {
            all.push("--insecure-diagnostics".to_owned());
        }
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        let process = Guarded::start(&Program {
            path: &binary(),
            arguments: all,
            variables,
            log: folder.join("manager.log"),
            remove_after: None,
        })?;
        Ok(Self {
            process,
            health,
            diagnostics,
        })
    }

    /// The URL of `/healthz` or `/readyz`.
    pub fn health_url(&self, path: &str) -> String {
        format!("127.0.0.1:{}{path}", self.health)
    }

    /// The URL of the metrics.
    pub fn metrics_url(&self) -> String {
        format!("127.0.0.1:{}/metrics", self.diagnostics)
    }

    /// The metrics as they are now.
    pub async fn metrics(&self) -> String {
        let (status, text) = get(&self.metrics_url()).await.unwrap();
        assert_eq!(status, 200, "{text}");
        text
    }

    /// Returns when `/readyz` answers 200.
    pub async fn until_ready(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            let last = match get(&self.health_url("/readyz")).await {
                Ok((200, _)) => return Ok(()),
                Ok((_, body)) => body,
                Err(error) => error.to_string(),
            };
            self.still_patient(begun, || format!("is not ready: {last}"))?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns when its log contains `text`.
    pub async fn until_logged(&mut self, text: &str) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            // The process is checked before the log is read, so that the last lines of a process that has ended are
            // read too.
            let ended = self.process.ended()?.is_some();
            if std::fs::read_to_string(self.process.log())?.contains(text) {
                return Ok(());
            }
            if ended {
                return Err(format!(
                    "the manager ended and never said {text:?}:\n{}",
                    self.process.last_lines(10)
                )
                .into());
            }
            self.still_patient(begun, || format!("has not said {text:?}"))?;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn still_patient(&mut self, begun: Instant, what: impl Fn() -> String) -> Result<(), Error> {
        if let Some(status) = self.process.ended()? {
            return Err(format!(
                "the manager ended ({status}):\n{}",
                self.process.last_lines(10)
            )
            .into());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!(
                "after {PATIENCE:?} the manager {}\n{}",
                what(),
                self.process.last_lines(10)
            )
            .into());
        }
        Ok(())
    }
}

/// The sum of the counters whose lines in the metrics begin like this.
pub fn counted(metrics: &str, beginning: &str) -> usize {
    let lines = metrics.lines().filter(|line| line.starts_with(beginning));
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
    counts.sum()
}

/// The binary: the one that `CAPO_RS_BINARY` names, such as a release build, or the one that cargo built for this test.
pub fn binary() -> PathBuf {
    let named = |variable| std::env::var_os(variable).map(PathBuf::from);
    named("CAPO_RS_BINARY")
        .or_else(|| named("CARGO_BIN_EXE_capo-rs"))
        .unwrap_or_else(|| {
            // Cargo puts the programs of the workspace one folder above tests, benches and examples.
            let own = std::env::current_exe().unwrap_or_default();
            let folder = own.parent().and_then(Path::parent);
            folder.unwrap_or(Path::new(".")).join("capo-rs")
        })
}

/// GET over plain HTTP of `host:port/path`: status and body.
pub async fn get(url: &str) -> Result<(u16, String), Error> {
    let (host, path) = url.split_once('/').ok_or("a URL without a path")?;
    let get = async {
        let stream = tokio::net::TcpStream::connect(host).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = http::Request::get(format!("/{path}"))
            .header("host", host)
            .body(Empty::<bytes::Bytes>::new())?;
        let answer = sender.send_request(request).await?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok::<_, Error>((status, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::time::timeout(REQUEST, get)
        .await
        .map_err(|_| format!("no answer from {url} within {REQUEST:?}"))?
}
