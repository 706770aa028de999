//! The one way that every call takes: token, budget, lease, request, and what the answer means.

pub(crate) mod budget;
mod call;
pub(crate) mod circuit;
pub(crate) mod classify;
pub(crate) mod error_text;
mod paging;
pub(crate) mod retry_after;
pub(crate) mod transport;
