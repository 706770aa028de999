//! The data types: what is known, what is wanted and what is decided, and questions that a single value can answer from
//! its own fields. No module here imports a module that decides or plans.

pub(crate) mod attempts;
pub(crate) mod call;
pub(crate) mod clock;
pub(crate) mod decision;
pub mod desired;
pub mod effect;
pub mod event;
pub(crate) mod evidence;
pub mod findings;
pub mod floating_ip;
pub(crate) mod machine;
pub(crate) mod member;
pub(crate) mod metric_event;
pub mod octavia;
pub(crate) mod part;
pub(crate) mod port;
pub(crate) mod proof;
pub(crate) mod reply_outcome;
pub(crate) mod settings;
pub mod state;
pub(crate) mod summary;
pub(crate) mod trouble;
