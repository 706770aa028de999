//! Settings, leader lease, HTTP endpoints, start and stop order.
