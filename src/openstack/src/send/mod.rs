//! The path of every call: token, budget, lease, request, and the meaning of the answer.

pub(crate) mod budget;
mod call;
pub(crate) mod circuit;
pub(crate) mod classify;
pub(crate) mod error_text;
pub(crate) mod page_sizes;
mod paging;
pub(crate) mod retry_after;
pub(crate) mod transport;
