//! A request through the endpoint of a control plane, and its result.

use std::{fmt, net::IpAddr, time::Duration};

/// The address at which clients reach a control plane, which usually is that of its load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// A DNS name or an IP address; an IPv6 address may stand in brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl Endpoint {
    /// The host without the brackets of an IPv6 address.
    pub fn bare_host(&self) -> &str {
        let host = self.host.as_str();
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
    }
}

/// As in a URL, with an IPv6 address in brackets.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = (self.bare_host(), self.port);
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

/// The answer to a request through the endpoint, from a server that showed a certificate of the cluster's CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointAnswer {
    /// The HTTP status code.
    pub status: u16,
    /// Those of the requested addresses that the serving certificate names.
    pub named: Vec<IpAddr>,
    /// The start of the body, for messages.
    pub body: Excerpt,
}

impl EndpointAnswer {
    /// Whether this is the answer of an API server that takes requests. 401 and 403 count: an API server without
    /// anonymous authentication refuses a request for `/readyz`.
    pub fn is_served(&self) -> bool {
        matches!(self.status, 200 | 401 | 403)
    }

    /// The address by which the serving certificate shows that the machine with the addresses `own` gave the answer. A
    /// certificate that names several machines does not show which one answered.
    pub fn given_by(&self, own: &[IpAddr]) -> Option<IpAddr> {
        let names_no_other = self.named.iter().all(|named| own.contains(named));
        self.named.first().copied().filter(|_| names_no_other)
    }
}

/// Why no answer came through the endpoint. The text is a phrase that continues a sentence, such as
/// "GET https://192.0.2.1:6443/readyz failed: ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointFailure {
    /// The lookup of the host found no address.
    #[error("the host has no address ({0})")]
    NoAddress(Excerpt),
    /// The connection was refused, because no process listens at the address.
    #[error("the connection was refused")]
    Refused,
    /// No answer came within this time.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The operating system has no route to the address.
    #[error("no connection ({0})")]
    Unreachable(Excerpt),
    /// The connection was closed before the answer was complete.
    #[error("the connection was closed without an answer")]
    Closed,
    /// The other side does not speak TLS.
    #[error("the other side does not speak TLS")]
    NotTls,
    /// The other side ended the TLS handshake.
    #[error("the other side ended the TLS handshake ({0})")]
    TlsRefused(Excerpt),
    /// The serving certificate was not issued by the cluster's CA.
    #[error("the serving certificate was not issued by the cluster's CA")]
    OtherCa,
    /// The cluster's CA issued the serving certificate, but the certificate is not valid.
    #[error("the serving certificate is not valid ({0})")]
    BadCertificate(Excerpt),
    /// The other side does not speak HTTP.
    #[error("the other side does not speak HTTP")]
    NotHttp,
    /// The proxy that the manager's environment names refused to connect.
    #[error("the proxy answered {status} to CONNECT{}", after_colon(body))]
    Proxy {
        /// The status code of the proxy's answer to `CONNECT`.
        status: u16,
        /// The start of the body of that answer.
        body: Excerpt,
    },
    /// The proxy that the manager's environment names can't be reached.
    #[error("the proxy can't be reached: {0}")]
    NoProxy(Box<EndpointFailure>),
    /// The manager's environment names a proxy of a kind that is not supported.
    #[error("the environment names a proxy of scheme {0}, and only http is supported")]
    UnsupportedProxy(Excerpt),
    /// The cluster has no Secret with its CA, so no answer can be verified.
    #[error("the cluster has no Secret with the CA that verifies the answer")]
    NoCaSecret,
    /// The Secret with the cluster's CA could not be read, or has no CA in PEM.
    #[error(
        "the Secret with the cluster's CA, which verifies the answer, could not be read or has no CA in PEM"
    )]
    UnreadableCa,
}

impl EndpointFailure {
    /// Whether something at the endpoint answered, however it did, or whether that is not known.
    pub fn may_have_answered(&self) -> bool {
        match self {
            Self::NoAddress(_)
            | Self::Refused
            | Self::TimedOut(_)
            | Self::Unreachable(_)
            | Self::Proxy { .. }
            | Self::NoProxy(_)
            | Self::UnsupportedProxy(_)
            | Self::NoCaSecret => false,
            Self::Closed
            | Self::NotTls
            | Self::TlsRefused(_)
            | Self::OtherCa
            | Self::BadCertificate(_)
            | Self::NotHttp
            | Self::UnreadableCa => true,
        }
    }
}

/// The body of an answer as the end of a message, if there is one.
fn after_colon(body: &Excerpt) -> String {
    if body.is_empty() {
        String::new()
    } else {
        format!(": {body}")
    }
}

/// Text of unknown origin for a message: one line of at most [`Excerpt::LIMIT`] characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excerpt(String);

impl Excerpt {
    /// The largest number of characters.
    pub const LIMIT: usize = 200;

    /// The start of `text`; control characters and repeated white space become one space each.
    pub fn of(text: &str) -> Self {
        let words = text
            .split(|c: char| c.is_control() || c.is_whitespace())
            .filter(|word| !word.is_empty());
        let mut line = String::new();
        let mut length = 0;
        for (index, word) in words.enumerate() {
            let gap = (index > 0).then_some(' ');
            for c in gap.into_iter().chain(word.chars()) {
                if length == Self::LIMIT {
                    return Self(line);
                }
                line.push(c);
                length += 1;
            }
        }
        Self(line)
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, Excerpt};

    #[test]
    fn an_excerpt_is_one_short_line_without_control_characters() {
        let excerpt = Excerpt::of("  <html>\r\n\t<b>\u{1b}[31mno\u{0}</b>\n").to_string();
        assert_eq!(excerpt, "<html> <b> [31mno </b>");
        let long = Excerpt::of(&"ä ".repeat(500)).to_string();
        assert_eq!(long.chars().count(), Excerpt::LIMIT);
    }

    #[test]
    fn an_ipv6_address_stands_in_brackets_however_it_was_written() {
        for (host, expected) in [
            ("192.0.2.1", "192.0.2.1:6443"),
            ("api.example.org", "api.example.org:6443"),
            ("2001:db8::1", "[2001:db8::1]:6443"),
            ("[2001:db8::1]", "[2001:db8::1]:6443"),
        ] {
            let endpoint = Endpoint {
                host: host.to_owned(),
                port: 6443,
            };
            assert_eq!(endpoint.to_string(), expected);
        }
    }
}
