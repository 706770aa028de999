//! Another client that may change the load balancer.

use std::{net::IpAddr, time::Duration};

use reqwest::Method;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::{
    contract::{Access, Raw},
    invariants::secrets::CANARY,
};

/// The other client, signed in as a member of the project.
pub struct ForeignClient(Raw);

/// A running task of the client, until this is dropped.
pub struct Busy(JoinHandle<()>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ForeignClient {
    pub async fn sign_in(auth_url: String) -> Self {
        let demo = || "demo".to_owned();
        let access = Access {
            auth_url,
            user: demo(),
            password: CANARY.to_owned(),
            project: demo(),
        };
        Self(Raw::sign_in(&access).await)
    }

    /// Deletes the only load balancer of the project with all its parts, and waits until it does not exist any more.
    pub async fn delete_load_balancer(&self) {
        let address = self.load_balancer().await.unwrap();
        loop {
            let cascade = format!("{address}?cascade=true");
            let (status, said) = self.0.send(Method::DELETE, &cascade, None).await;
            // Until then the load balancer is locked by another change.
            match status {
                204 | 409 => tokio::time::sleep(Duration::from_millis(200)).await,
                404 => return,
                _ => panic!("{status} {said}"),
            }
        }
    }

    /// Deletes the project's only port with this address.
    pub async fn delete_port_at(&self, address: IpAddr) {
        let list = self.0.address("network", "ports");
        let query = format!("{list}?fixed_ips=ip_address%3D{address}");
        let (_, found) = self.0.send(Method::GET, &query, None).await;
        let id = found["ports"][0]["id"].as_str().unwrap();
        let (status, said) = self
            .0
            .send(Method::DELETE, &format!("{list}/{id}"), None)
            .await;
        assert_eq!(status, 204, "{said}");
    }

    /// Changes the load balancer repeatedly, whenever it accepts a change, with this pause in between.
    pub fn keep_busy(self, pause: Duration) -> Busy {
        Busy(tokio::spawn(async move {
            for change in 0_u32.. {
                if let Some(address) = self.load_balancer().await {
                    let body = json!({"loadbalancer": {"description": format!("change {change}")}});
                    self.0.send(Method::PUT, &address, Some(body)).await;
                }
                tokio::time::sleep(pause).await;
            }
        }))
    }

    async fn load_balancer(&self) -> Option<String> {
        let list = self.0.address("load-balancer", "loadbalancers");
        let (_, found) = self.0.send(Method::GET, &list, None).await;
        let id = found["loadbalancers"][0]["id"].as_str()?;
        Some(format!("{list}/{id}"))
    }
}
