//! capo-rs
fn main() {}
