//! What is known, what is wanted and what is decided: data, and questions that one value answers by itself. Nothing here
//! imports a module that computes.

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
pub(crate) mod settings;
pub mod state;
pub(crate) mod summary;
pub(crate) mod trouble;
