//! Tokens, and one sign-in per credential.

use std::time::Duration;

use capo_core::{FailureClass, Priority};
use capo_openstack::{CloudProfile, LeaseToken, SignInOutcome, network::NetworkFilter};
use serde_json::{Value, json};
use wiremock::{
    Mock, ResponseTemplate,
    matchers::{method, path},
};

use super::{
    PROJECT, answer, bare_cloud, catalogue, cloud, ok, profile, settings, token, token_with,
};

const TOKENS: &str = "/identity/v3/auth/tokens";
const LIST: &str = "/network/v2.0/networks";

fn empty() -> ResponseTemplate {
    ok(json!({"networks": []}))
}

#[tokio::test]
async fn twenty_clusters_of_one_credential_sign_in_once() {
    let test = cloud().await;
    answer(
        &test,
        "GET",
        LIST,
        empty().set_delay(Duration::from_millis(5)),
    )
    .await;
    let url = format!("{}/identity", test.server.uri());
    let mut calls = tokio::task::JoinSet::new();
    for cluster in 0..20 {
        // Some clusters name the cloud's interface, which makes another profile of the same account.
        let extra = if cluster % 2 == 0 {
            ""
        } else {
            "    interface: publicURL\n    verify: true\n"
        };
        let cloud = test.clouds.cloud(profile(&url, extra)).unwrap();
        for _ in 0..3 {
            let cloud = cloud.clone();
            calls.spawn(async move {
                cloud
                    .networks(&NetworkFilter::default(), Priority::Steady)
                    .await
                    .unwrap();
            });
        }
    }
    calls.join_all().await;
    assert_eq!(test.sign_ins().await, 1);
    assert_eq!(test.requests("GET", LIST).await.len(), 60);
}

#[tokio::test]
async fn regions_of_one_credential_share_its_token() {
    let test = cloud().await;
    answer(&test, "GET", LIST, empty()).await;
    let yaml = |region: &str| {
        profile(
            &format!("{}/identity", test.server.uri()),
            &format!("    # {region}\n"),
        )
    };
    let one = test.clouds.cloud(yaml("x")).unwrap();
    one.networks(&NetworkFilter::default(), Priority::Steady)
        .await
        .unwrap();
    let data = std::collections::BTreeMap::from([(
        "clouds.yaml".to_owned(),
        k8s_openapi::ByteString(
            format!(
                "clouds: {{test: {{auth: {{auth_url: '{}/identity', user_id: u, password: {}, project_id: p}}}}}}",
                test.server.uri(),
                super::PASSWORD
            )
            .into_bytes(),
        ),
    )]);
    let two = CloudProfile::from_secret(&data, "test", Some("Two")).unwrap();
    let error = test
        .clouds
        .cloud(two)
        .unwrap()
        .networks(&NetworkFilter::default(), Priority::Steady)
        .await
        .unwrap_err();
    assert_eq!(error.class(), FailureClass::NoService);
    assert_eq!(
        error.to_string(),
        "network_list: the catalogue has no network service in region Two; it has one in One"
    );
    assert_eq!(test.sign_ins().await, 1);
}

#[tokio::test]
async fn what_is_sent_for_each_credential() {
    let table: [(&str, Value); 4] = [
        (
            "auth: {auth_url: URL, username: u, password: w, project_name: p, user_domain_name: d, project_domain_id: e}",
            json!({"auth": {"identity": {"methods": ["password"], "password": {"user":
                {"name": "u", "domain": {"name": "d"}, "password": "w"}}},
                "scope": {"project": {"name": "p", "domain": {"id": "e"}}}}}),
        ),
        (
            "auth: {auth_url: URL, token: t, project_id: p}",
            json!({"auth": {"identity": {"methods": ["token"], "token": {"id": "t"}},
                "scope": {"project": {"id": "p"}}}}),
        ),
        (
            "auth: {auth_url: URL, application_credential_id: i, application_credential_secret: s}",
            json!({"auth": {"identity": {"methods": ["application_credential"],
                "application_credential": {"id": "i", "secret": "s"}}}}),
        ),
        (
            "auth: {auth_url: URL, application_credential_name: n, user_id: u, application_credential_secret: s}",
            json!({"auth": {"identity": {"methods": ["application_credential"],
                "application_credential": {"name": "n", "user": {"id": "u"}, "secret": "s"}}}}),
        ),
    ];
    for (auth, expected) in table {
        let test = cloud().await;
        let auth = auth.replace("URL", &format!("'{}/identity/v3'", test.server.uri()));
        let yaml = format!("clouds: {{test: {{{auth}}}}}");
        let data = [(
            "clouds.yaml".to_owned(),
            k8s_openapi::ByteString(yaml.into_bytes()),
        )];
        let profile = CloudProfile::from_secret(&data.into(), "test", None).unwrap();
        let cloud = test.clouds.cloud(profile).unwrap();
        assert_eq!(cloud.project_id().await.unwrap(), PROJECT);
        let sent = test.requests("POST", TOKENS).await;
        assert_eq!(sent.len(), 1);
        assert_eq!(
            serde_json::from_slice::<Value>(&sent[0].body).unwrap(),
            expected
        );
    }
}

#[tokio::test]
async fn a_refused_token_is_replaced_once() {
    let test = cloud().await;
    Mock::given(method("GET"))
        .and(path(LIST))
        .respond_with(ResponseTemplate::new(401))
        .up_to_n_times(1)
        .mount(&test.server)
        .await;
    answer(&test, "GET", LIST, empty()).await;
    test.cloud
        .networks(&NetworkFilter::default(), Priority::Steady)
        .await
        .unwrap();
    assert_eq!(test.sign_ins().await, 2);
    assert_eq!(test.requests("GET", LIST).await.len(), 2);
}

#[tokio::test]
async fn a_service_that_refuses_every_token_causes_no_storm() {
    let test = cloud().await;
    answer(&test, "GET", LIST, ResponseTemplate::new(401)).await;
    let mut texts = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let error = test
            .cloud
            .networks(&NetworkFilter::default(), Priority::Steady)
            .await
            .unwrap_err();
        assert_eq!(error.class(), FailureClass::Auth);
        texts.insert(error.to_string());
    }
    assert_eq!(
        texts.into_iter().collect::<Vec<_>>(),
        ["network_list: network refuses the token of cloud test (HTTP 401)"]
    );
    assert_eq!(test.sign_ins().await, 2, "one sign-in more, then back-off");
    assert_eq!(test.requests("GET", LIST).await.len(), 21);
}

#[tokio::test]
async fn a_refused_credential_is_not_tried_again_and_again() {
    for (status, outcome, text) in [
        (
            401,
            SignInOutcome::Unauthorized,
            "The request you have made requires authentication.",
        ),
        (403, SignInOutcome::Unauthorized, "The account is disabled"),
        (
            404,
            SignInOutcome::NotFound,
            "Could not find Application Credential: abc.",
        ),
    ] {
        let test = bare_cloud(settings(), LeaseToken::unlimited()).await;
        let body = json!({"error": {"code": status, "message": text, "title": "x"}});
        answer(
            &test,
            "POST",
            TOKENS,
            ResponseTemplate::new(status).set_body_json(body),
        )
        .await;
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let cloud = test.cloud.clone();
            calls.spawn(async move {
                let error = cloud
                    .networks(&NetworkFilter::default(), Priority::Steady)
                    .await
                    .unwrap_err();
                assert_eq!(error.class(), FailureClass::Auth);
                assert!(error.retry_after().is_some());
                error.to_string()
            });
        }
        let texts = calls.join_all().await;
        let expected = format!(
            "token_create: cloud test: the credential is refused by 127.0.0.1 (HTTP {status}): {text}"
        );
        assert!(texts.iter().all(|found| *found == expected), "{texts:?}");
        assert_eq!(test.sign_ins().await, 1);
        assert_eq!(*test.events.sign_ins.lock(), [outcome]);
    }
}

#[tokio::test]
async fn keystone_down_costs_few_calls() {
    let test = bare_cloud(settings(), LeaseToken::unlimited()).await;
    answer(&test, "POST", TOKENS, ResponseTemplate::new(503)).await;
    for _ in 0..50 {
        let error = test.cloud.project_id().await.unwrap_err();
        assert_eq!(error.class(), FailureClass::Transient);
        assert_eq!(
            error.to_string(),
            "token_create: cloud test: sign-in at 127.0.0.1 answers HTTP 503"
        );
    }
    assert_eq!(test.sign_ins().await, 1);
}

#[tokio::test]
async fn a_token_is_replaced_ahead_of_its_end_whatever_the_clocks_say() {
    let test = bare_cloud(settings(), LeaseToken::unlimited()).await;
    // Keystone's clock is ten minutes slow, so that by the clock of this host the token expired long ago.
    let issued = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(10);
    let life = |seconds| {
        token_with(&json!({
            "issued_at": issued.to_string(),
            "expires_at": (issued + jiff::SignedDuration::from_secs(seconds)).to_string(),
            "project": {"id": PROJECT}, "catalog": catalogue(&test.server.uri())}))
    };
    Mock::given(method("POST"))
        .and(path(TOKENS))
        .respond_with(life(2))
        .up_to_n_times(1)
        .mount(&test.server)
        .await;
    answer(&test, "POST", TOKENS, life(3600)).await;
    answer(&test, "GET", LIST, empty()).await;
    let list = async || {
        test.cloud
            .networks(&NetworkFilter::default(), Priority::Steady)
            .await
            .unwrap()
    };
    list().await;
    assert_eq!(test.sign_ins().await, 1, "still young");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    for _ in 0..20 {
        list().await;
    }
    // The renewal runs in the background, and once, however many calls are made in the meantime.
    while test.sign_ins().await < 2 {
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        list().await;
    }
    assert_eq!(test.sign_ins().await, 2);
}

#[tokio::test]
async fn an_unscoped_token_is_an_error() {
    let test = bare_cloud(settings(), LeaseToken::unlimited()).await;
    let unscoped = token_with(&json!({"issued_at": "x", "methods": ["password"]}));
    answer(&test, "POST", TOKENS, unscoped).await;
    let error = test.cloud.project_id().await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Auth);
    assert!(error.to_string().ends_with("the credential must name one"));
}

#[tokio::test]
async fn unreadable_tokens_are_errors() {
    for response in [
        ResponseTemplate::new(201).set_body_json(json!({"token": {}})),
        ResponseTemplate::new(201)
            .insert_header("X-Subject-Token", "t")
            .set_body_string("{"),
        ResponseTemplate::new(200).set_body_string("<html>Welcome to the captive portal</html>"),
    ] {
        let test = bare_cloud(settings(), LeaseToken::unlimited()).await;
        answer(&test, "POST", TOKENS, response).await;
        let error = test.cloud.project_id().await.unwrap_err();
        assert_eq!(error.class(), FailureClass::Transient, "{error}");
    }
}

#[tokio::test]
async fn a_missing_service_is_named_with_what_there_is() {
    let test = bare_cloud(settings(), LeaseToken::unlimited()).await;
    let mut services = catalogue(&test.server.uri());
    services
        .as_array_mut()
        .unwrap()
        .retain(|entry| entry["type"] != "load-balancer");
    answer(
        &test,
        "POST",
        TOKENS,
        token_with(&json!({"project": {"id": PROJECT}, "catalog": services})),
    )
    .await;
    let error = test
        .cloud
        .load_balancer(&"x".into(), Priority::Steady)
        .await
        .unwrap_err();
    assert_eq!(error.class(), FailureClass::NoService);
    assert_eq!(
        error.to_string(),
        "loadbalancer_get: the catalogue has no load-balancer service; it has compute, image, network, volumev3"
    );
    assert_eq!(
        test.sign_ins().await,
        1,
        "a new catalogue is not requested again"
    );
}

#[tokio::test]
async fn no_secret_is_in_any_text() {
    let test = bare_cloud(settings(), LeaseToken::unlimited()).await;
    answer(&test, "POST", TOKENS, token(&test.server.uri(), 3600)).await;
    let echo = format!("bad token {} given", super::TOKEN);
    answer(
        &test,
        "GET",
        LIST,
        ResponseTemplate::new(400).set_body_string(echo),
    )
    .await;
    let error = test
        .cloud
        .networks(&NetworkFilter::default(), Priority::Steady)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "network_list: network answers HTTP 400: bad token *** given"
    );
    let shown = format!("{:?} {:?} {error:?}", test.cloud, test.clouds);
    assert!(!shown.contains(super::TOKEN) && !shown.contains(super::PASSWORD));
}
