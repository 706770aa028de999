//! The lock of a load balancer: one change at a time.

use super::{immutable, missing, model::LoadBalancer, octavia_error, status::Provisioning};
use crate::{wire::Reply, world::World};

impl World {
    /// Locks a load balancer, or returns the error with its status.
    pub(super) fn lock_balancer(
        &mut self,
        id: &str,
        status: Provisioning,
        from: &[Provisioning],
    ) -> Result<LoadBalancer, Reply> {
        let now = self.now;
        let lb = self
            .octavia
            .balancers
            .get_mut(id)
            .ok_or_else(|| missing("Load Balancer", id))?;
        if !from.contains(&lb.head.provisioning) {
            return Err(octavia_error(
                409,
                format!(
                    "Invalid state {} of loadbalancer resource {id}",
                    lb.head.provisioning.text()
                ),
            ));
        }
        let before = lb.clone();
        lb.head.set(status, now);
        Ok(before)
    }

    /// The common lock of changes below a load balancer: 409 unless it is ACTIVE. Then the load balancer, the pool and
    /// these listeners are PENDING_UPDATE.
    pub(super) fn lock_below(
        &mut self,
        id: &str,
        listeners: &[String],
        pool: Option<&str>,
    ) -> Result<(), Reply> {
        let now = self.now;
        let lb = self
            .octavia
            .balancers
            .get_mut(id)
            .ok_or_else(|| missing("Load Balancer", id))?;
        if lb.head.provisioning != Provisioning::Active {
            return Err(immutable("Load Balancer", id));
        }
        lb.head.set(Provisioning::PendingUpdate, now);
        for listener in listeners {
            if let Some(listener) = lb.listener_mut(listener) {
                listener.head.set(Provisioning::PendingUpdate, now);
            }
        }
        if let Some(pool) = pool.and_then(|pool| lb.pool_mut(pool)) {
            pool.head.set(Provisioning::PendingUpdate, now);
        }
        Ok(())
    }

    /// The lock for changes of members and monitors: first the pool must be ACTIVE, then the load balancer.
    pub(super) fn lock_pool(&mut self, id: &str, pool: &str) -> Result<LoadBalancer, Reply> {
        let lb = self
            .octavia
            .balancers
            .get(id)
            .ok_or_else(|| missing("Load Balancer", id))?;
        let row = lb.pool(pool).ok_or_else(|| missing("Pool", pool))?;
        if row.head.provisioning != Provisioning::Active {
            return Err(immutable("Pool", pool));
        }
        let before = lb.clone();
        let listeners = lb.listeners_of(pool);
        self.lock_below(id, &listeners, Some(pool))?;
        Ok(before)
    }
}
