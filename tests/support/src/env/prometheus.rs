//! A real Prometheus, and promtool.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{Error, Guarded, guarded::Program, kubernetes::free_port, programs};
use crate::waiting::PATIENCE;

/// A running Prometheus; killed when dropped, and with this process.
pub struct Prometheus {
    process: Guarded,
    url: String,
    client: reqwest::Client,
}

impl Prometheus {
    /// Starts a Prometheus with this configuration. Its data is in `folder`/data and is kept however old it is.
    pub async fn start(folder: &Path, configuration: &str) -> Result<Self, Error> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let file = folder.join("prometheus.yaml");
        std::fs::write(&file, configuration)?;
        let port = free_port()?;
        let process = Guarded::start(&Program {
            path: &programs::of_prometheus("prometheus")?,
            arguments: vec![
                format!("--config.file={}", file.display()),
                format!("--storage.tsdb.path={}", folder.join("data").display()),
                "--storage.tsdb.retention.time=100y".to_owned(),
                format!("--web.listen-address=127.0.0.1:{port}"),
                // A run of minutes is asked for in one go.
                "--query.lookback-delta=5m".to_owned(),
            ],
            variables: Vec::new(),
            log: folder.join("prometheus.log"),
            remove_after: None,
        })?;
        let mut prometheus = Self {
            process,
            url: format!("http://127.0.0.1:{port}"),
            client: reqwest::Client::new(),
        };
        let begun = Instant::now();
        while prometheus.get("-/ready", &[]).await.is_err() {
            if prometheus.process.ended()?.is_some() || begun.elapsed() > PATIENCE {
                let log = prometheus.process.last_lines(10);
                return Err(format!("Prometheus does not start:\n{log}").into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(prometheus)
    }

    /// The result of a query over a range of time, in seconds since 1970, with this many seconds between two points.
    pub async fn range(&self, query: &str, range: (f64, f64), step: f64) -> Result<Value, Error> {
        let (start, end) = (range.0.to_string(), range.1.to_string());
        let step = step.to_string();
        let parameters = [
            ("query", query),
            ("start", &start),
            ("end", &end),
            ("step", &step),
        ];
        self.data("api/v1/query_range", &parameters).await
    }

    /// The result of a query at a moment.
    pub async fn at(&self, query: &str, time: f64) -> Result<Value, Error> {
        self.data(
            "api/v1/query",
            &[("query", query), ("time", &time.to_string())],
        )
        .await
    }

    /// The state of the scrapes at the moment.
    pub async fn targets(&self) -> Result<Value, Error> {
        self.data("api/v1/targets", &[]).await
    }

    async fn data(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, Error> {
        let answer: Value = serde_json::from_str(&self.get(path, parameters).await?)?;
        if answer["status"] == "success" {
            Ok(answer["data"].clone())
        } else {
            Err(format!("{path} {parameters:?}: {answer}").into())
        }
    }

    async fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Result<String, Error> {
        let url = format!("{}/{path}", self.url);
        let request = self.client.get(url).query(parameters).timeout(PATIENCE);
        let answer = request.send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        // The body of a 400 has the error of the query.
        if status.is_success() || status == 400 {
            Ok(text)
        } else {
            Err(format!("HTTP {status}: {text}").into())
        }
    }
}

/// Runs promtool in `folder`, with `input` on its standard input.
pub fn promtool(folder: &Path, arguments: &[&str], input: &str) -> Result<Output, Error> {
    use std::io::Write as _;
    let mut child = Command::new(programs::of_prometheus("promtool")?)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    let input = input.to_owned();
    let write = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output()?;
    // A promtool that does not read its input ends before everything is written.
    let _ = write.join();
    Ok(output)
}
