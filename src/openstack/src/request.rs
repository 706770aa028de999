//! One call as data: method, address, body, name and priority.

use std::{collections::BTreeMap, fmt};

use bytes::Bytes;
use reqwest::Method;
use serde::Serialize;
use tokio::time::Instant;

use crate::{
    service::{ApiVersion, Service},
    wire::TagFilter,
};
use capo_core::Priority;

/// Defines methods of [`Cloud`](crate::Cloud) that make one call each. After the `=` are the method of `Cloud` that
/// reads the answer, the call, and the key under which the answer is read. Each method takes the priority of its call
/// as the last argument.
macro_rules! calls {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty =
            $read:ident($call:expr $(, $key:literal)?);
    )+) => {
        impl $crate::Cloud {$(
            $(#[$doc])*
            pub async fn $name(
                &self,
                $($argument: $type,)*
                priority: ::capo_core::Priority,
            ) -> Result<$answer, $crate::Error> {
                let call = $call.at(priority);
                self.$read(call $(, $key)?).await
            }
        )+}
    };
}
pub(crate) use calls;

/// A body that can't be written as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request can't be written as JSON")]
pub(crate) struct Unserializable;

/// A call that was not sent yet. It has no `Debug`, because bodies hold user data.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) service: Service,
    /// The metric label `request`.
    pub(crate) request: &'static str,
    pub(crate) method: Method,
    /// The path segments after the service's base address; each is percent-encoded.
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<(&'static str, String)>,
    /// The JSON, or the error if it could not be written.
    pub(crate) body: Option<Result<Bytes, Unserializable>>,
    /// Nova's microversion.
    pub(crate) version: Option<ApiVersion>,
    pub(crate) priority: Priority,
    /// The time at which the call was asked for, before any wait for a token, a version or the request budget.
    pub(crate) made: Instant,
    /// Whether the caller requests a smaller page if the answer is too large. The service is then not taken to have
    /// failed.
    pub(crate) smaller_follows: bool,
}

impl Call {
    fn new<const N: usize>(
        service: Service,
        request: &'static str,
        method: Method,
        path: [&str; N],
    ) -> Self {
        Self {
            service,
            request,
            method,
            path: path.map(str::to_owned).into(),
            query: Vec::new(),
            body: None,
            version: None,
            priority: Priority::Steady,
            made: Instant::now(),
            smaller_follows: false,
        }
    }

    pub(crate) fn get<const N: usize>(
        service: Service,
        request: &'static str,
        path: [&str; N],
    ) -> Self {
        Self::new(service, request, Method::GET, path)
    }

    pub(crate) fn post<const N: usize>(
        service: Service,
        request: &'static str,
        path: [&str; N],
    ) -> Self {
        Self::new(service, request, Method::POST, path)
    }

    pub(crate) fn put<const N: usize>(
        service: Service,
        request: &'static str,
        path: [&str; N],
    ) -> Self {
        Self::new(service, request, Method::PUT, path)
    }

    pub(crate) fn delete<const N: usize>(
        service: Service,
        request: &'static str,
        path: [&str; N],
    ) -> Self {
        Self::new(service, request, Method::DELETE, path)
    }

    pub(crate) fn at(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    pub(crate) fn query(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.query.push((key, value.into()));
        self
    }

    /// Adds `key=value` to the query for every value, and nothing for an absent one. Neutron reads a repeated key as a
    /// list of alternatives.
    pub(crate) fn each<V: fmt::Display>(
        mut self,
        key: &'static str,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let pairs = values.into_iter().map(|value| (key, value.to_string()));
        self.query.extend(pairs);
        self
    }

    /// Adds the conditions on tags to the query.
    pub(crate) fn tags(mut self, filter: &TagFilter) -> Self {
        filter.query(&mut self.query);
        self
    }

    pub(crate) fn version(mut self, version: ApiVersion) -> Self {
        self.version = Some(version);
        self
    }

    /// The body `{key: value}`.
    pub(crate) fn json<T: Serialize + ?Sized>(self, key: &'static str, value: &T) -> Self {
        self.body(&BTreeMap::from([(key, value)]))
    }

    /// The body as it is.
    pub(crate) fn body<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        self.body = Some(
            serde_json::to_vec(value)
                .map(Bytes::from)
                .map_err(|_| Unserializable),
        );
        self
    }

    /// Whether the call changes something.
    pub(crate) fn mutates(&self) -> bool {
        self.method != Method::GET
    }

    pub(crate) fn method_name(&self) -> &'static str {
        match self.method {
            Method::GET => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::DELETE => "DELETE",
            _ => "OTHER",
        }
    }
}
