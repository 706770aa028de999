//! Requests and replies of the services, without the types of an HTTP library.

use serde_json::{Map, Value, json};

use crate::identity::Caller;

/// A JSON object, the form of most rows of the services.
pub type Row = Map<String, Value>;

/// The services, as the first path segment names them.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Keystone.
    Identity,
    /// Nova.
    Compute,
    /// Neutron.
    Network,
    /// Glance.
    Image,
    /// Cinder.
    Volume,
    /// Octavia.
    LoadBalancer,
}

impl Service {
    /// Every service.
    pub const ALL: [Self; 6] = [
        Self::Identity,
        Self::Compute,
        Self::Network,
        Self::Image,
        Self::Volume,
        Self::LoadBalancer,
    ];

    /// The path prefix below which it is served, which is also its name in scripts and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Compute => "compute",
            Self::Network => "network",
            Self::Image => "image",
            Self::Volume => "volume",
            Self::LoadBalancer => "load-balancer",
        }
    }

    /// The service behind a path prefix.
    pub fn of_prefix(prefix: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|service| service.name() == prefix)
    }
}

/// One call, after the shell has read all of it.
#[derive(Debug, Clone)]
pub struct Request {
    /// The service that is called.
    pub service: Service,
    /// Upper-case method.
    pub method: String,
    /// Path segments behind the service prefix, decoded.
    pub segments: Vec<String>,
    /// Query pairs in order, decoded.
    pub query: Vec<(String, String)>,
    /// Header pairs, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as JSON; `Null` when empty or not JSON.
    pub body: Value,
    /// Scheme and authority the caller used, without a slash at the end.
    pub base: String,
    /// The caller, after the token was checked.
    pub caller: Caller,
}

impl Request {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The first value of a query parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The path with its service prefix, as recorded.
    pub fn path(&self) -> String {
        format!("/{}/{}", self.service.name(), self.segments.join("/"))
    }

    /// The object under `name` in the body, or an empty one.
    pub fn object(&self, name: &str) -> Row {
        self.body
            .get(name)
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    }
}

/// The reply to a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Extra headers.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Body,
}

/// A reply's body.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// No body.
    Empty,
    /// A JSON document.
    Json(Value),
    /// Text with its content type.
    Text(&'static str, String),
}

impl Reply {
    /// A JSON answer.
    pub fn json(status: u16, body: Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Body::Json(body),
        }
    }

    /// An answer without a body.
    pub fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Body::Empty,
        }
    }

    /// Text of some content type.
    pub fn text(status: u16, kind: &'static str, text: impl Into<String>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Body::Text(kind, text.into()),
        }
    }

    /// The same reply with one more header.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// `{code, title, message}` under a name, as Nova, Cinder and the token middleware answer.
    pub fn fault(status: u16, name: &str, message: impl Into<String>) -> Self {
        let message: String = message.into();
        Self::json(
            status,
            json!({ name: { "code": status, "message": message } }),
        )
    }
}

/// Every result of a call is a reply; `Err` exists only for the `?` operator.
pub type Answer = Result<Reply, Reply>;

/// The short reason phrase of a status code.
pub const fn reason_phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        409 => "Conflict",
        413 => "Request Entity Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "OK",
    }
}

/// A string field of a row.
pub fn text<'a>(row: &'a Row, key: &str) -> &'a str {
    row.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A string field that is present and not empty.
pub fn given<'a>(row: &'a Row, key: &str) -> Option<&'a str> {
    row.get(key)
        .and_then(Value::as_str)
        .filter(|value| !value.is_empty())
}

/// A list of strings in a row.
pub fn strings(row: &Row, key: &str) -> Vec<String> {
    row.get(key)
        .and_then(Value::as_array)
        .map(|values| {
            values
                .iter()
                .filter_map(|value| value.as_str().map(str::to_owned))
                .collect()
        })
        .unwrap_or_default()
}

/// True for the spellings of true that OpenStack's query strings use.
pub fn truthy(value: &str) -> bool {
    matches!(
        value.to_ascii_lowercase().as_str(),
        "true" | "1" | "t" | "yes" | "on"
    )
}
