//! Admission and version conversion: pure functions and a small HTTPS server.
