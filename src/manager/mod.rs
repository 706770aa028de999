//! Settings, leader lease, HTTP endpoints, start and stop order.

pub mod storage_migration;
