//! The `capo-rs` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    capo_rs::cli::main(std::env::args_os())
}
