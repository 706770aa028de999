//! Plays the data path of a load balancer whose amphorae do not run, and the API servers behind it.
//!
//! It is the proxy of the manager's environment. A connection to the endpoint goes to a member that Octavia shows in
//! service at that moment: ACTIVE, enabled, with a weight where the provider has weights. The API server there has a
//! certificate for its own address, as kubeadm gives it.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use capo_core::{Priority, ProvisioningStatus, ids::PoolId};
use capo_openstack::{
    Cloud,
    load_balancer::{LoadBalancerFilter, Member},
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::OnceCell,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
};
use tokio_util::task::AbortOnDropHandle;

use super::{Authority, Error};

/// The largest head of a request that is read.
const HEAD_LIMIT: usize = 4096;

/// A request that was answered.
#[derive(Debug, Clone)]
pub struct Request {
    /// The address of the API server that has answered.
    pub answered_by: IpAddr,
    /// The members when the request came.
    pub members: Vec<Member>,
}

/// A running data path. It ends when this is dropped.
pub struct DataPath {
    address: SocketAddr,
    played: Arc<Played>,
    _accepting: AbortOnDropHandle<()>,
}

struct Played {
    authority: Authority,
    cloud: Cloud,
    cluster: String,
    has_weights: bool,
    pool: OnceCell<PoolId>,
    stuck: Mutex<Option<IpAddr>>,
    requests: Mutex<Vec<Request>>,
}

impl DataPath {
    /// Starts the data path of the load balancer of this provider that this cluster has in this cloud.
    pub async fn start(cloud: Cloud, cluster: &str, provider: &str) -> Result<Self, Error> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let played = Arc::new(Played {
            authority: Authority::new(cluster)?,
            cloud,
            cluster: cluster.to_owned(),
            has_weights: provider != "ovn",
            pool: OnceCell::new(),
            stuck: Mutex::default(),
            requests: Mutex::default(),
        });
        let address = listener.local_addr()?;
        let accepted = played.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let played = accepted.clone();
                // The manager waits for the answer no longer than for any request.
                tokio::spawn(async move { played.serve(stream).await });
            }
        });
        Ok(Self {
            address,
            played,
            _accepting: AbortOnDropHandle::new(accepting),
        })
    }

    /// The authority of the API servers' certificates.
    pub fn authority(&self) -> &Authority {
        &self.played.authority
    }

    /// The environment variables of a manager that reaches the endpoint through this proxy, and everything else
    /// directly. `HTTPS_PROXY` would also apply to the server of a kubeconfig.
    pub fn variables(&self) -> Vec<(String, String)> {
        let proxy = format!("http://{}", self.address);
        [
            ("ALL_PROXY", proxy.as_str()),
            ("NO_PROXY", "127.0.0.1,localhost"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// From now on every connection goes to this address, whatever Octavia shows, as if no change reached the data
    /// path.
    pub fn stick(&self, address: Option<IpAddr>) {
        *self.played.stuck.lock() = address;
    }

    /// The members of the load balancer as Octavia shows them.
    pub async fn members(&self) -> Result<Vec<Member>, Error> {
        self.played.members().await
    }

    /// The requests that were answered since the last call.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut *self.played.requests.lock())
    }
}

impl Played {
    async fn members(&self) -> Result<Vec<Member>, Error> {
        let pool = self.pool.get_or_try_init(|| self.find_pool()).await?;
        Ok(self.cloud.members(pool, Priority::Gate).await?)
    }

    async fn find_pool(&self) -> Result<PoolId, Error> {
        let filter = LoadBalancerFilter::default();
        let all = self.cloud.load_balancers(&filter, Priority::Gate).await?;
        let own = all.iter().find(|one| one.name.contains(&self.cluster));
        let own = own.ok_or("there is no load balancer")?;
        let tree = self.cloud.status_tree(&own.id, Priority::Gate).await?;
        let pool = tree.pools.into_iter().next();
        Ok(pool.ok_or("there is no pool")?.id)
    }

    async fn serve(&self, stream: TcpStream) -> Result<(), Error> {
        let members = self.members().await?;
        let gets_connections = |member: &&Member| {
            if self.has_weights {
                is_in_service(member)
            } else {
                is_enabled(member)
            }
        };
        let in_service = members.iter().find(gets_connections);
        let stuck = *self.stuck.lock();
        let address = stuck.or_else(|| in_service?.address);
        // If no member is in service, the connection is closed.
        let answered_by = address.ok_or("no member is in service")?;
        self.answer(stream, answered_by).await?;
        self.requests.lock().push(Request {
            answered_by,
            members,
        });
        Ok(())
    }

    async fn answer(&self, mut stream: TcpStream, address: IpAddr) -> Result<(), Error> {
        let head = head(&mut stream).await?;
        let endpoint = head
            .strip_prefix("CONNECT ")
            .and_then(|rest| rest.split(' ').next())
            .ok_or("not a request to a proxy")?;
        let endpoint: SocketAddr = endpoint.parse()?;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        let (host, own) = (endpoint.ip().to_string(), address.to_string());
        let pair = self.authority.server(&[host.as_str(), own.as_str()])?;
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes())?],
                PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?,
            )?;
        let mut stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await?;
        let code = if self::head(&mut stream).await?.starts_with("GET /readyz ") {
            200
        } else {
            404
        };
        let answer = format!("HTTP/1.1 {code} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).await?;
        // The client may have closed the connection already.
        let _ = stream.shutdown().await;
        Ok(())
    }
}

/// Whether a load balancer would send new connections to the member.
pub fn is_in_service(member: &Member) -> bool {
    is_enabled(member) && member.weight > 0
}

/// Whether a load balancer that ignores weights would send new connections to the member.
fn is_enabled(member: &Member) -> bool {
    member.provisioning_status == ProvisioningStatus::Active && member.admin_state_up
}

/// The head of a request, with the empty line at its end.
async fn head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Result<String, Error> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == HEAD_LIMIT {
            return Err("the head of a request is too long".into());
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8(head)?)
}
