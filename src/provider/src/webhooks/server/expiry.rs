//! When a certificate ends, read from its DER. RFC 5280, 4.1: the second time in `validity`, the fifth
//! field of the part that is signed, not counting the version.

use jiff::Timestamp;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The end of a certificate's validity; `None` for what is no certificate.
pub(super) fn not_after(der: &[u8]) -> Option<Timestamp> {
    let (certificate, _) = expect(SEQUENCE, der)?;
    let (mut signed, _) = expect(SEQUENCE, certificate)?;
    if let Some((_, rest)) = expect(VERSION, signed) {
        signed = rest;
    }
    let (_, rest) = expect(INTEGER, signed)?;
    let (_, rest) = expect(SEQUENCE, rest)?; // algorithm
    let (_, rest) = expect(SEQUENCE, rest)?; // issuer
    let (validity, _) = expect(SEQUENCE, rest)?;
    let (_, _, rest) = element(validity)?;
    let (tag, time, _) = element(rest)?;
    let time = std::str::from_utf8(time).ok()?.strip_suffix('Z')?;
    let time = match tag {
        // Two digits of the year: 50 to 99 are of the last century.
        UTC_TIME => {
            let century = if time.get(..2)? < "50" { "20" } else { "19" };
            format!("{century}{time}")
        }
        GENERALIZED_TIME => time.to_owned(),
        _ => return None,
    };
    format!(
        "{}-{}-{}T{}:{}:{}Z",
        time.get(..4)?,
        time.get(4..6)?,
        time.get(6..8)?,
        time.get(8..10)?,
        time.get(10..12)?,
        time.get(12..14)?
    )
    .parse()
    .ok()
}

/// Content and rest of an element that must have `tag`.
fn expect(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(der)?;
    (found == tag).then_some((content, rest))
}

/// Tag, content and rest of the first element.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        if count > 4 {
            return None;
        }
        let (bytes, rest) = rest.split_at_checked(count)?;
        let length = bytes
            .iter()
            .fold(0, |length, &byte| length << 8 | usize::from(byte));
        (length, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_read_in_both_notations() {
        for (year, expected) in [
            (2027, "2027-03-04T00:00:00Z"),
            (2051, "2051-03-04T00:00:00Z"),
        ] {
            let mut parameters = rcgen::CertificateParams::new(vec!["x".to_owned()]).unwrap();
            parameters.not_after = rcgen::date_time_ymd(year, 3, 4);
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = parameters.self_signed(&key).unwrap();
            assert_eq!(
                not_after(certificate.der()),
                Some(expected.parse().unwrap())
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(der in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = not_after(&der);
        }
    }
}
