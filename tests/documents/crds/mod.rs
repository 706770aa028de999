//! The custom resource definitions, compared with the committed files, with the types and with CAPO's.

mod committed;
mod facts;
mod types;
