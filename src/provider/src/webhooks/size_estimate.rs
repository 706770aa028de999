//! An estimate of the memory that a JSON text takes as a tree.
//!
//! Five bytes such as `{"":}` take more than six hundred bytes as a tree, so a bound on the text alone is not enough.
//! Counting the characters that open or separate values is enough, and is possible before parsing.

/// Bytes of a tree that one object may take. An ordinary object of the API server's size limit (1.5 MiB in etcd) takes
/// ten to fifteen times its text, so less than this. An update is reviewed with two objects.
pub(super) const MOST_BYTES: usize = 32 << 20;

/// Bytes of an object that has fields: the first node of its map has room for eleven fields, even if there is only one.
const OBJECT: usize = 720;
/// Bytes of a list that has values: it begins with room for four.
const LIST: usize = 176;
/// Bytes of each further field or value: its place, as half of the places of a large map or list may be free, and the
/// allocations of a short name and a short text.
const ENTRY: usize = 176;

/// An object would take more memory than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the object would take about {} MiB of memory, allowed are {}", bytes >> 20, MOST_BYTES >> 20)]
pub(super) struct TooHeavy {
    bytes: usize,
}

/// Refuses texts that would make too large a tree.
pub(super) fn check(text: &str) -> Result<(), TooHeavy> {
    let bytes = of(text);
    if bytes > MOST_BYTES {
        return Err(TooHeavy { bytes });
    }
    Ok(())
}

/// About the bytes that `text` takes as a tree. Commas and brackets inside strings are counted as well, so the estimate
/// is never too low.
pub(super) fn of(text: &str) -> usize {
    let bytes = text.as_bytes();
    let next = bytes.iter().skip(1).chain(std::iter::once(&b' '));
    let structure: usize = bytes
        .iter()
        .zip(next)
        .map(|(byte, next)| match (byte, next) {
            // An empty object or list takes no memory besides its place in its parent.
            (b'{', b'}') | (b'[', b']') => 0,
            (b'{', _) => OBJECT,
            (b'[', _) => LIST,
            (b',', _) => ENTRY,
            _ => 0,
        })
        .sum();
    text.len() + structure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_object_of_the_largest_size_is_allowed() {
        let rule = r#"{"name":"rule-1","direction":"ingress","protocol":"tcp","portRangeMin":1,"portRangeMax":2}"#;
        let fields = r#""f:direction":{},"#;
        for part in [format!("{rule},"), fields.to_owned()] {
            let text = part.repeat((3 << 19) / part.len());
            assert!(check(&text).is_ok(), "{} for {part}", of(&text));
        }
    }

    #[test]
    fn texts_whose_trees_are_many_times_larger_are_refused() {
        let tower = format!("{}0{},", r#"{"":"#.repeat(120), "}".repeat(120));
        for (part, tree) in [
            (r#"{"":0},"#, 650),
            (tower.as_str(), 120 * 630),
            ("[0],", 130),
            ("{},", 32),
            (r#""a","#, 48),
        ] {
            let count = MOST_BYTES / tree + 1;
            assert!(check(&part.repeat(count)).is_err(), "{part:.20}");
        }
    }
}
