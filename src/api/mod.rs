//! Custom resource types of every served version, and their schema rules.

pub mod gate_annotation;
