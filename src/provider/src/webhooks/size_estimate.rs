//! How much memory a JSON text may take once it is a tree.
//!
//! Seven bytes such as `{"":0},` become more than six hundred as a tree, so a bound on the text alone
//! bounds nothing. Counting what opens or separates values is enough, and can be done before parsing.

/// The most values of one object. An object of the API server's own limit (1.5 MiB in etcd) that holds
/// anything sensible has a tenth of it.
const MAX_VALUES: usize = 250_000;

/// An object has more values than anybody needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the object has about {values} values, allowed are {MAX_VALUES}")]
pub(super) struct TooHeavy {
    values: usize,
}

/// Refuses texts that would make too big a tree. Commas and brackets inside of strings count too: the
/// bound is rough and errs on the safe side.
pub(super) fn check(text: &str) -> Result<(), TooHeavy> {
    let values = text
        .bytes()
        .filter(|byte| matches!(byte, b'{' | b'[' | b','))
        .count();
    if values > MAX_VALUES {
        return Err(TooHeavy { values });
    }
    Ok(())
}
