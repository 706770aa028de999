//! An estimate of the memory that a JSON text takes as a tree.
//!
//! Seven bytes such as `{"":0},` take more than six hundred bytes as a tree, so a bound on the text alone is not
//! enough. Counting the characters that open or separate values is enough, and is possible before parsing.

/// The largest number of values of one object. An ordinary object of the API server's size limit (1.5 MiB in etcd) has
/// a tenth of it.
const MAX_VALUES: usize = 250_000;

/// An object has more values than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the object has about {values} values, allowed are {MAX_VALUES}")]
pub(super) struct TooHeavy {
    values: usize,
}

/// Refuses texts that would make too large a tree. Commas and brackets inside strings are counted as well, so the
/// estimate is never too low.
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
