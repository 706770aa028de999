//! Plain HTTP with a token, for requests that the client does not have.

use reqwest::{Client, Method};
use serde_json::{Value, json};

/// A user of a project, both in the domain Default.
#[derive(Debug, Clone)]
pub struct Access {
    pub auth_url: String,
    pub user: String,
    pub password: String,
    pub project: String,
}

/// A signed-in client.
pub struct Raw {
    http: Client,
    token: String,
    catalogue: Value,
    user_id: String,
    identity: String,
}

impl Raw {
    pub async fn sign_in(access: &Access) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = Client::new();
        let domain = json!({"name": "Default"});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user":
                {"name": access.user, "domain": domain, "password": access.password}}},
            "scope": {"project": {"name": access.project, "domain": domain}}}});
        let identity = access.auth_url.trim_end_matches("/v3").to_owned() + "/v3";
        let url = format!("{identity}/auth/tokens");
        let response = http.post(url).json(&body).send().await.unwrap();
        assert_eq!(response.status(), 201);
        let token = response.headers()["x-subject-token"]
            .to_str()
            .unwrap()
            .to_owned();
        let body: Value = response.json().await.unwrap();
        Self {
            http,
            token,
            catalogue: body["token"]["catalog"].clone(),
            user_id: body["token"]["user"]["id"].as_str().unwrap().to_owned(),
            identity,
        }
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// The URL of the user in Keystone.
    pub fn me(&self) -> String {
        format!("{}/users/{}", self.identity, self.user_id)
    }

    /// The address of Octavia's, Neutron's or Nova's `path`.
    pub fn address(&self, service: &str, path: &str) -> String {
        let entries = self.catalogue.as_array().unwrap();
        let endpoint = entries
            .iter()
            .find(|entry| entry["type"] == service)
            .and_then(|entry| entry["endpoints"].as_array())
            .and_then(|endpoints| endpoints.iter().find(|one| one["interface"] == "public"))
            .unwrap();
        let url = endpoint["url"].as_str().unwrap().trim_end_matches('/');
        let version = match service {
            "load-balancer" => "/v2/lbaas",
            "network" => "/v2.0",
            "image" => "/v2",
            _ => "",
        };
        let unversioned = url.trim_end_matches("/v2.0").trim_end_matches("/v2");
        let base = if version.is_empty() { url } else { unversioned };
        format!("{base}{version}/{path}")
    }

    /// Sends a request, and returns the status and the body (null if it is not JSON).
    pub async fn send(&self, method: Method, url: &str, body: Option<Value>) -> (u16, Value) {
        let mut request = self
            .http
            .request(method, url)
            .header("X-Auth-Token", &self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let body = response.bytes().await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    pub async fn get(&self, service: &str, path: &str) -> (u16, Value) {
        self.send(Method::GET, &self.address(service, path), None)
            .await
    }
}
