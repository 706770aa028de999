//! The gates, on control-plane machines.
