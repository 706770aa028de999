//! The custom resource definitions: as committed, as the types read them, and against CAPO's.

mod committed;
mod facts;
mod types;
