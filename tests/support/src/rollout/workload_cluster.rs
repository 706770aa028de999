//! The workload cluster: one etcd, one authority, and an API server for every machine.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use kube::{Client, Config, config::AuthInfo};

use crate::env::{ApiServer, Authority, Error, Etcd, Guarded, authority::Pair};

/// The port of every API server, and of the endpoint.
pub const PORT: u16 = 6443;

/// The parts that all API servers of a cluster share.
pub struct WorkloadCluster {
    etcd: Etcd,
    /// The cluster's CA.
    pub authority: Authority,
    /// The certificate of a cluster-admin.
    pub administrator: Pair,
    service_accounts: Pair,
    folder: PathBuf,
}

impl WorkloadCluster {
    /// Starts its etcd. All files are written to `folder`, which is emptied first. The logs stay there.
    pub fn start(name: &str, folder: &Path) -> Result<Self, Error> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder)?;
        let authority = Authority::new(&format!("{name} authority"))?;
        Ok(Self {
            etcd: Etcd::start(folder, Some(folder.join("etcd")))?,
            administrator: authority.client("administrator", &["system:masters"])?,
            service_accounts: authority.client("service-account-signing", &[])?,
            authority,
            folder: folder.to_owned(),
        })
    }

    /// The folder of its files and logs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts the API server of a machine at its own address.
    pub fn start_api_server(
        &self,
        machine: &str,
        address: IpAddr,
        endpoint: IpAddr,
    ) -> Result<Guarded, Error> {
        let folder = self.folder.join(machine);
        std::fs::create_dir_all(&folder)?;
        let serving = self.authority.server(&[
            "kubernetes",
            "10.96.0.1",
            &address.to_string(),
            &endpoint.to_string(),
        ])?;
        ApiServer {
            etcd: self.etcd.url(),
            address: SocketAddr::new(address, PORT),
            serving: &serving,
            authority: &self.authority.certificate(),
            service_accounts: &self.service_accounts,
            folder: &folder,
            more: Vec::new(),
        }
        .start()
    }

    /// A cluster-admin's client for the endpoint, or for one API server at its own address.
    pub fn client(&self, address: SocketAddr) -> Result<Client, Error> {
        let mut config = Config::new(format!("https://{address}").parse()?);
        config.root_cert = Some(pem_to_der(&self.authority.certificate())?);
        config.auth_info = AuthInfo {
            client_certificate_data: Some(base64(&self.administrator.certificate)),
            client_key_data: Some(base64(&self.administrator.key).into()),
            ..AuthInfo::default()
        };
        config.connect_timeout = Some(std::time::Duration::from_secs(2));
        config.read_timeout = Some(std::time::Duration::from_secs(5));
        Ok(Client::try_from(config)?)
    }
}

fn pem_to_der(pem: &str) -> Result<Vec<Vec<u8>>, Error> {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .map(|certificate| Ok(certificate?.to_vec()))
        .collect()
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
