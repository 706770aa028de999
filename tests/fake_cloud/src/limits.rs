//! Quotas and rate limits that can be switched on.

use std::{collections::HashMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::wire::{Reply, Service};

/// A quota.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// The service.
    pub service: Service,
    /// The resource as the service names it in its quotas (`member`, `port`, `instances`, `volumes`).
    pub resource: String,
    /// Project id; without it, the quota is that of every project.
    #[serde(default)]
    pub project: Option<String>,
    /// The largest number; without it, the quota is lifted.
    #[serde(default)]
    pub limit: Option<usize>,
}

/// A rate limit.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// The service; without it, the limit is for all services together.
    #[serde(default)]
    pub service: Option<Service>,
    /// Calls a second in the long run.
    pub per_second: f64,
    /// Calls that may follow each other at once.
    #[serde(default = "one")]
    pub burst: f64,
    /// The `Retry-After` header of a refusal, exactly as it is sent; without it, none is sent.
    #[serde(default)]
    pub retry_after: Option<String>,
    /// The status of a refusal.
    #[serde(default = "too_many")]
    pub status: u16,
}

const fn one() -> f64 {
    1.0
}

const fn too_many() -> u16 {
    429
}

#[derive(Debug, Clone)]
struct Bucket {
    rule: RateLimit,
    tokens: f64,
    filled: Duration,
}

/// All limits in force.
#[derive(Debug, Default)]
pub struct Limits {
    quotas: HashMap<(Service, String, Option<String>), usize>,
    buckets: Vec<Bucket>,
}

impl Limits {
    /// Sets or lifts a quota.
    pub fn set_quota(&mut self, quota: Quota) {
        let key = (quota.service, quota.resource, quota.project);
        match quota.limit {
            Some(limit) => self.quotas.insert(key, limit),
            None => self.quotas.remove(&key),
        };
    }

    /// The quota that holds for a project.
    pub fn quota(&self, service: Service, project: &str, resource: &str) -> Option<usize> {
        self.quotas
            .get(&(service, resource.to_owned(), Some(project.to_owned())))
            .or_else(|| self.quotas.get(&(service, resource.to_owned(), None)))
            .copied()
    }

    /// Adds a rate limit.
    pub fn add_rate(&mut self, rule: RateLimit, elapsed: Duration) {
        let tokens = rule.burst;
        self.buckets.push(Bucket {
            rule,
            tokens,
            filled: elapsed,
        });
    }

    /// Lifts all rate limits.
    pub fn clear_rates(&mut self) {
        self.buckets.clear();
    }

    /// Lifts all quotas.
    pub fn clear_quotas(&mut self) {
        self.quotas.clear();
    }

    /// Takes one call from the budget, or refuses it.
    pub fn admit(&mut self, service: Service, elapsed: Duration) -> Result<(), Reply> {
        for bucket in &mut self.buckets {
            if bucket
                .rule
                .service
                .is_some_and(|limited| limited != service)
            {
                continue;
            }
            let passed = elapsed.saturating_sub(bucket.filled).as_secs_f64();
            bucket.tokens =
                (bucket.tokens + passed * bucket.rule.per_second).min(bucket.rule.burst);
            bucket.filled = elapsed;
            if bucket.tokens < 1.0 {
                let reply = Reply::text(bucket.rule.status, "text/plain", "Too Many Requests");
                return Err(match &bucket.rule.retry_after {
                    Some(value) => reply.with("Retry-After", value.clone()),
                    None => reply,
                });
            }
            bucket.tokens -= 1.0;
        }
        Ok(())
    }
}
