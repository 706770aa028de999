//! One listening address and port: accepts connections, chooses a member, and forwards bytes.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::member_choice::{self, Rotation};
use crate::octavia::{AppliedListener, AppliedMember, AppliedPool};

/// The number of further attempts after a connection to a member failed. This is HAProxy's default.
const RETRIES: u32 = 3;
/// The pause between two attempts with the same member.
const TURN_AROUND: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_secs(5);

/// The state that the connections of one load balancer share.
#[derive(Debug, Default)]
pub(crate) struct Common {
    memories: Mutex<HashMap<String, Rotation>>,
    served: Mutex<HashMap<String, u64>>,
    cuts: Mutex<HashMap<String, CancellationToken>>,
}

impl Common {
    /// Records the result of the checks of a member.
    pub(crate) fn set_down(&self, pool: &str, member: &str, down: bool) {
        let mut memories = self.memories.lock();
        memories
            .entry(pool.to_owned())
            .or_default()
            .down
            .insert(member.to_owned(), down);
    }

    /// Removes the result of a member that is not checked any more.
    pub(crate) fn forget_check(&self, pool: &str, member: &str) {
        if let Some(rotation) = self.memories.lock().get_mut(pool) {
            rotation.down.remove(member);
        }
    }

    /// Connections carried so far, by member.
    pub(crate) fn served(&self) -> HashMap<String, u64> {
        self.served.lock().clone()
    }

    /// Closes the connections to one member, or all connections.
    pub(crate) fn cut(&self, member: Option<&str>) {
        self.cuts.lock().retain(|id, token| {
            let hit = member.is_none_or(|member| member == id);
            if hit {
                token.cancel();
            }
            !hit
        });
    }

    fn next(&self, pool: &AppliedPool, refused: Option<&str>) -> (Option<AppliedMember>, bool) {
        let mut memories = self.memories.lock();
        let rotation = memories.entry(pool.id.clone()).or_default();
        let alone = member_choice::usable(pool, rotation).len() < 2;
        (member_choice::next(pool, rotation, refused), alone)
    }

    fn begin(&self, member: &str) -> CancellationToken {
        *self.served.lock().entry(member.to_owned()).or_default() += 1;
        self.cuts
            .lock()
            .entry(member.to_owned())
            .or_default()
            .clone()
    }
}

/// The tokens that end accepting and forwarding.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    /// Ends accepting; established connections continue.
    pub(crate) stop: CancellationToken,
    /// Ends all connections.
    pub(crate) end: CancellationToken,
    /// The tasks of the connections.
    pub(crate) tasks: TaskTracker,
}

/// Accepts connections until it is stopped.
pub(crate) async fn accept(
    listener: TcpListener,
    config: watch::Receiver<Arc<AppliedListener>>,
    common: Arc<Common>,
    life: Life,
) {
    loop {
        let accepted = tokio::select! {
            () = life.stop.cancelled() => return,
            () = life.end.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((client, peer)) = accepted else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let config = Arc::clone(&config.borrow());
        let common = Arc::clone(&common);
        let end = life.end.clone();
        life.tasks.spawn(async move {
            tokio::select! {
                () = end.cancelled() => {}
                () = carry(client, peer, &config, &common) => {}
            }
        });
    }
}

fn allowed(peer: IpAddr, cidrs: &[String]) -> bool {
    let covers = |cidr: &String| {
        cidr.parse::<ipnet::IpNet>()
            .is_ok_and(|cidr| cidr.contains(&peer))
    };
    cidrs.is_empty() || cidrs.iter().any(covers)
}

async fn carry(mut client: TcpStream, peer: SocketAddr, config: &AppliedListener, common: &Common) {
    let open = config.enabled && allowed(peer.ip(), &config.allowed_cidrs);
    let Some(pool) = config.pool.as_ref().filter(|_| open) else {
        reset(&client);
        return;
    };
    let Some((member, mut server)) = connect(pool, common).await else {
        if !pool.redispatch {
            // A packet filter passes the refusal to the client. A proxy has already accepted the connection and closes
            // it.
            reset(&client);
        }
        return;
    };
    let cut = common.begin(&member.id);
    if client
        .set_nodelay(true)
        .and_then(|()| server.set_nodelay(true))
        .is_err()
    {
        return;
    }
    tokio::select! {
        () = cut.cancelled() => reset(&client),
        carried = tokio::io::copy_bidirectional(&mut client, &mut server) => {
            if carried.is_err() {
                reset(&client);
            }
        }
    }
}

fn reset(client: &TcpStream) {
    if let Err(error) = client.set_zero_linger() {
        tracing::trace!(%error, "can't reset");
    }
}

async fn connect(pool: &AppliedPool, common: &Common) -> Option<(AppliedMember, TcpStream)> {
    let (mut member, _) = common.next(pool, None);
    for left in (0..=RETRIES).rev() {
        let chosen = member?;
        // Only loopback addresses are called, because tests must not call other hosts.
        let target = chosen
            .address
            .parse::<IpAddr>()
            .ok()
            .filter(IpAddr::is_loopback)
            .filter(|_| chosen.plugged);
        if let Some(address) = target {
            let attempt = TcpStream::connect((address, chosen.port));
            if let Ok(Ok(server)) = tokio::time::timeout(CONNECT, attempt).await {
                return Some((chosen, server));
            }
        }
        if !pool.redispatch || left == 0 {
            return None;
        }
        let (next, alone) = common.next(pool, Some(&chosen.id));
        if alone {
            tokio::time::sleep(TURN_AROUND).await;
        }
        member = next;
    }
    None
}
