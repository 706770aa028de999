//! `fake-cloud`: a stateful OpenStack on loopback.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use fake_cloud::{AssumedHealth, Durations, FakeCloud, Options};

/// A stateful OpenStack on loopback, with faults on request and a real TCP data path.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Commands to run at the start, one JSON or YAML document a line.
    #[arg(long)]
    script: Option<PathBuf>,
    /// Write the clouds.yaml to this file as well.
    #[arg(long)]
    clouds_yaml: Option<PathBuf>,
    /// Range of the external network; by default a piece of 127.128.0.0/9 that depends on the port.
    #[arg(long)]
    floating_range: Option<ipnet::Ipv4Net>,
    /// Regions in the catalogue.
    #[arg(long, default_value = "RegionOne")]
    region: Vec<String>,
    /// Seconds that tokens live.
    #[arg(long, default_value_t = 3600)]
    token_life: u64,
    /// Provider of load balancers whose creator names none.
    #[arg(long, default_value = "amphora")]
    default_provider: String,
    /// Seconds of a load balancer's creation.
    #[arg(long)]
    load_balancer_create: Option<f64>,
    /// Seconds of any other change in Octavia.
    #[arg(long)]
    operation: Option<f64>,
    /// Seconds a server takes to build.
    #[arg(long)]
    server_build: Option<f64>,
    /// Don't listen on the load balancers' addresses.
    #[arg(long)]
    no_data_path: bool,
    /// HAProxy, which then carries the connections of amphora providers.
    #[arg(long, conflicts_with = "no_data_path")]
    haproxy: Option<PathBuf>,
    /// Heartbeats never arrive where no data path checks members.
    #[arg(long)]
    silent_health: bool,
    /// Load balancer, network and image endpoints carry their version in the catalogue.
    #[arg(long)]
    versioned_catalogue: bool,
    /// Calls that the record keeps.
    #[arg(long, default_value_t = 50_000)]
    record_size: usize,
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "can't start");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(run(arguments))
}

async fn run(arguments: Arguments) -> ExitCode {
    let usual = Durations::default();
    let options = Options {
        listen: arguments.listen,
        script: arguments.script,
        durations: Durations {
            load_balancer_create: arguments
                .load_balancer_create
                .unwrap_or(usual.load_balancer_create),
            operation: arguments.operation.unwrap_or(usual.operation),
            server_build: arguments.server_build.unwrap_or(usual.server_build),
            ..usual
        },
        regions: arguments.region,
        floating_range: arguments.floating_range,
        token_life: Duration::from_secs(arguments.token_life),
        default_provider: arguments.default_provider,
        data_path: !arguments.no_data_path,
        haproxy: arguments.haproxy,
        assumed_health: if arguments.silent_health {
            AssumedHealth::Silent
        } else {
            AssumedHealth::Online
        },
        versioned_catalogue: arguments.versioned_catalogue,
        record_size: arguments.record_size,
        ..Options::default()
    };
    let cloud = match FakeCloud::start(options).await {
        Ok(cloud) => cloud,
        Err(error) => {
            say_error(&error.to_string());
            return ExitCode::FAILURE;
        }
    };
    let yaml = cloud.clouds_yaml();
    if let Some(path) = arguments.clouds_yaml
        && let Err(error) = tokio::fs::write(&path, &yaml).await
    {
        say_error(&format!("can't write {}: {error}", path.display()));
        return ExitCode::FAILURE;
    }
    say(&yaml);
    let mut terminate =
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(terminate) => terminate,
            Err(error) => {
                say_error(&error.to_string());
                return ExitCode::FAILURE;
            }
        };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    cloud.shutdown().await;
    ExitCode::SUCCESS
}

#[expect(
    clippy::print_stdout,
    reason = "the clouds.yaml is this program's output"
)]
fn say(text: &str) {
    use std::io::Write as _;
    print!("{text}");
    if std::io::stdout().flush().is_err() {
        tracing::debug!("the clouds.yaml could not be written to standard output");
    }
}

#[expect(clippy::print_stderr, reason = "a program without a log yet")]
fn say_error(text: &str) {
    eprintln!("fake-cloud: {text}");
}
