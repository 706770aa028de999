//! The version and the build of this program.

/// The version: that of the release (`CAPO_RS_VERSION` at build time), or else that of the package.
pub const VERSION: &str = env!("BUILT_AS_VERSION");
/// The commit of the build (`CAPO_RS_REVISION` at build time), or `unknown`.
pub const REVISION: &str = env!("BUILT_FROM_REVISION");
/// The compiler's version.
pub const RUSTC: &str = env!("BUILT_WITH_RUSTC");
/// The platform it was built for.
pub const TARGET: &str = env!("BUILT_FOR_TARGET");

/// Version, commit, compiler and platform in one line, for `--version`.
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
