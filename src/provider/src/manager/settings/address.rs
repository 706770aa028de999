//! Listening addresses in Go's notation.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address such as :8443, 127.0.0.1:8443 or 0 for none")]
pub(super) struct NotAnAddress(String);

/// A listening address; `None` means that the listener is off.
///
/// `:9440` means every address; `127.0.0.1:8080`, `localhost:8080` and `[::1]:8080` mean one address each; `0` and the
/// empty text mean none.
///
/// # Errors
///
/// The text, and examples of what is allowed.
pub(super) fn parse(text: &str) -> Result<Option<SocketAddr>, NotAnAddress> {
    if text.is_empty() || text == "0" {
        return Ok(None);
    }
    let wrong = || NotAnAddress(text.to_owned());
    if let Ok(address) = text.parse() {
        return Ok(Some(address));
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    match host {
        "" => Ok(Some(SocketAddr::new(
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            port,
        ))),
        "localhost" => Ok(Some(SocketAddr::from(([127, 0, 0, 1], port)))),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn reads_what_providers_use() {
        for (text, expected) in [
            (":9440", Some("[::]:9440")),
            ("localhost:8080", Some("127.0.0.1:8080")),
            ("127.0.0.1:8080", Some("127.0.0.1:8080")),
            ("[::1]:8080", Some("[::1]:8080")),
            ("0", None),
            ("", None),
        ] {
            let expected = expected.map(|text| text.parse().unwrap());
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in [
            "8080",
            ":",
            ":99999",
            "somewhere:80:90",
            "metrics.example:8443",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
