//! Tests over HTTP: signing in, the catalogue, expiring tokens, the control endpoint.

use serde_json::{Value, json};

use crate::{FakeCloud, Options, Service, settings::Durations};

/// A client that is signed in.
pub(super) struct Client {
    http: reqwest::Client,
    pub(super) base: String,
    token: String,
}

pub(super) async fn cloud(options: Options) -> (FakeCloud, Client) {
    let cloud = FakeCloud::start(Options {
        durations: Durations::instant(),
        ..options
    })
    .await
    .unwrap();
    let client = Client::sign_in(&cloud, "demo", "secret").await.unwrap();
    (cloud, client)
}

impl Client {
    pub(super) async fn sign_in(
        cloud: &FakeCloud,
        user: &str,
        password: &str,
    ) -> Result<Self, (u16, Value)> {
        // Plain HTTP needs no certificates, but the client requires an installed provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let body = json!({ "auth": { "identity": { "methods": ["password"], "password": { "user": {
            "name": user, "domain": { "name": "Default" }, "password": password } } },
            "scope": { "project": { "name": user, "domain": { "name": "Default" } } } } });
        let reply = http
            .post(format!("{}/auth/tokens", cloud.auth_url()))
            .json(&body)
            .send()
            .await
            .unwrap();
        let status = reply.status().as_u16();
        if status != 201 {
            return Err((status, reply.json().await.unwrap()));
        }
        let token = reply.headers()["x-subject-token"]
            .to_str()
            .unwrap()
            .to_owned();
        Ok(Self {
            http,
            base: cloud.base().to_owned(),
            token,
        })
    }

    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        body: Value,
    ) -> Result<reqwest::Response, reqwest::Error> {
        let method: reqwest::Method = method.parse().unwrap();
        let request = self
            .http
            .request(method, format!("{}{path}", self.base))
            .header("X-Auth-Token", &self.token);
        let request = if body.is_null() {
            request
        } else {
            request.json(&body)
        };
        request.send().await
    }

    pub(super) async fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let reply = self.send(method, path, body).await.unwrap();
        let status = reply.status().as_u16();
        (status, reply.json().await.unwrap_or_default())
    }

    /// POST; returns the id of the created object.
    pub(super) async fn make(&self, path: &str, kind: &str, body: Value) -> String {
        let (status, made) = self.call("POST", path, json!({ kind: body })).await;
        assert!(status == 201 || status == 202, "{path}: {status} {made}");
        made[kind]["id"].as_str().unwrap().to_owned()
    }

    /// Reads the object until it has this status.
    pub(super) async fn until_shown(&self, path: &str, pointer: &str, wanted: &str) {
        let mut last = Value::Null;
        for _ in 0..500 {
            let (_, body) = self.call("GET", path, Value::Null).await;
            if body.pointer(pointer).and_then(Value::as_str) == Some(wanted) {
                return;
            }
            last = body;
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("{path} never showed {wanted} at {pointer}: {last}");
    }
}

#[tokio::test]
async fn signing_in_gives_a_catalogue_whose_addresses_answer() {
    let (cloud, client) = cloud(Options::default()).await;
    let (status, catalogue) = client
        .call("GET", "/identity/v3/auth/catalog", Value::Null)
        .await;
    assert_eq!(status, 200);
    let entries = catalogue["catalog"].as_array().unwrap();
    let kinds: Vec<&str> = entries
        .iter()
        .map(|entry| entry["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "identity",
            "compute",
            "network",
            "image",
            "load-balancer",
            "block-storage",
            "volumev3"
        ]
    );
    for entry in entries {
        assert_eq!(
            entry["endpoints"].as_array().unwrap().len(),
            3,
            "public, internal, admin"
        );
        let url = entry["endpoints"][0]["url"].as_str().unwrap();
        let (status, body) = client
            .call("GET", url.strip_prefix(cloud.base()).unwrap(), Value::Null)
            .await;
        let versions = body.get("versions").or_else(|| body.get("version"));
        assert!(
            versions.is_some() || status == 404,
            "{url}: {status} {body}"
        );
    }
    let wrong = Client::sign_in(&cloud, "demo", "wrong")
        .await
        .err()
        .unwrap();
    assert_eq!(
        (wrong.0, wrong.1["error"]["title"].as_str()),
        (401, Some("Unauthorized"))
    );
}

#[tokio::test]
async fn tokens_end_by_age_and_by_command() {
    let (cloud, client) = cloud(Options::default()).await;
    let (status, _) = client
        .call("GET", "/network/v2.0/networks", Value::Null)
        .await;
    assert_eq!(status, 200);
    cloud
        .control()
        .run(json!({ "revoke_tokens": "demo" }))
        .unwrap();
    let reply = client
        .send("GET", "/network/v2.0/networks", Value::Null)
        .await
        .unwrap();
    assert_eq!(reply.status().as_u16(), 401);
    assert!(reply.headers().contains_key("www-authenticate"));
    cloud.control().run(json!({ "token_life": 0.0 })).unwrap();
    let client = Client::sign_in(&cloud, "demo", "secret").await.unwrap();
    let (status, _) = client
        .call("GET", "/network/v2.0/networks", Value::Null)
        .await;
    assert_eq!(status, 401, "ended at once");
}

#[tokio::test]
async fn an_application_credential_signs_in_until_it_is_deleted() {
    let (cloud, client) = cloud(Options::default()).await;
    let path = "/identity/v3/users/94b9c8c48603444293e84b1ac08dc8a7/application_credentials";
    let (status, made) = client
        .call(
            "POST",
            path,
            json!({ "application_credential": { "name": "robot" } }),
        )
        .await;
    assert_eq!(status, 201, "{made}");
    let credential = &made["application_credential"];
    let body = json!({ "auth": { "identity": { "methods": ["application_credential"],
        "application_credential": { "id": credential["id"], "secret": credential["secret"] } } } });
    let (status, token) = client
        .call("POST", "/identity/v3/auth/tokens", body.clone())
        .await;
    assert_eq!(
        (status, token["token"]["project"]["name"].as_str()),
        (201, Some("demo"))
    );
    let id = credential["id"].as_str().unwrap();
    let (status, _) = client
        .call("DELETE", &format!("{path}/{id}"), Value::Null)
        .await;
    assert_eq!(status, 204);
    let (status, body) = client.call("POST", "/identity/v3/auth/tokens", body).await;
    assert_eq!(
        (status, body["error"]["message"].as_str()),
        (
            404,
            Some(format!("Could not find Application Credential: {id}.").as_str())
        )
    );
    drop(cloud);
}

#[tokio::test]
async fn nova_speaks_microversions() {
    let (_cloud, client) = cloud(Options::default()).await;
    let flavors_in = |version: &'static str| {
        let request = client
            .http
            .get(format!("{}/compute/v2.1/flavors/detail", client.base));
        request
            .header("X-Auth-Token", &client.token)
            .header("OpenStack-API-Version", version)
            .send()
    };
    let reply = flavors_in("compute 2.61").await.unwrap();
    assert_eq!(reply.headers()["openstack-api-version"], "compute 2.61");
    assert_eq!(
        flavors_in("compute 9.9").await.unwrap().status().as_u16(),
        406
    );
    assert_eq!(
        flavors_in("compute bad").await.unwrap().status().as_u16(),
        400
    );
}

#[tokio::test]
async fn calls_are_recorded_under_their_labels() {
    let (cloud, client) = cloud(Options::default()).await;
    cloud.control().reset_calls();
    client
        .call("GET", "/network/v2.0/ports?name=x", Value::Null)
        .await;
    client
        .call("GET", "/compute/v2.1/servers/nope", Value::Null)
        .await;
    client
        .call(
            "GET",
            "/load-balancer/v2/lbaas/loadbalancers/nope/status",
            Value::Null,
        )
        .await;
    let calls = cloud.control().calls_since(0);
    let seen: Vec<(&str, Option<u16>, &str)> = calls
        .iter()
        .map(|call| (call.label.as_str(), call.status, call.credential.as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            ("port_list", Some(200), "demo"),
            ("server_get", Some(404), "demo"),
            ("loadbalancer_status_tree", Some(404), "demo"),
        ]
    );
    assert_eq!(cloud.control().calls_to(Service::LoadBalancer), 1);
    let (status, counters) = client.call("GET", "/control/counters", Value::Null).await;
    assert_eq!(
        (status, counters["network"]["port_list"].as_u64()),
        (200, Some(1))
    );
}

#[tokio::test]
async fn errors_of_commands_over_http_name_the_cause() {
    let (_cloud, client) = cloud(Options::default()).await;
    let (status, body) = client
        .call(
            "POST",
            "/control",
            json!({ "hold": { "member": "x", "status": "PENDING_CREATE" } }),
        )
        .await;
    assert_eq!(status, 200, "{body}");
    for wrong in [
        json!({ "hodl": {} }),
        json!({ "fault": { "statsu": 1 } }),
        json!({ "clear": "everything" }),
        json!({ "set_server": { "server": "x", "status": "ACTIVE" } }),
    ] {
        let (status, body) = client.call("POST", "/control", wrong.clone()).await;
        assert_eq!(status, 400, "{wrong}");
        assert!(!body["error"].as_str().unwrap().is_empty());
    }
}
