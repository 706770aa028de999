//! What this program is.

/// Its version: that of the release (`CAPO_RS_VERSION` at build time), or that of the package.
pub const VERSION: &str = env!("BUILT_AS_VERSION");
/// The commit it was built from (`CAPO_RS_REVISION` at build time), or `unknown`.
pub const REVISION: &str = env!("BUILT_FROM_REVISION");
/// The compiler's version.
pub const RUSTC: &str = env!("BUILT_WITH_RUSTC");
/// The platform it was built for.
pub const TARGET: &str = env!("BUILT_FOR_TARGET");

/// All of it in one line, for `--version`.
pub const LONG: &str = concat!(
    env!("BUILT_AS_VERSION"),
    " (revision ",
    env!("BUILT_FROM_REVISION"),
    ", rustc ",
    env!("BUILT_WITH_RUSTC"),
    ", ",
    env!("BUILT_FOR_TARGET"),
    ")"
);
