//! The expiry of a certificate.

use jiff::Timestamp;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The end of a certificate's validity; `None` for bytes that are not a certificate.
pub(super) fn not_after(der: &[u8]) -> Option<Timestamp> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
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
