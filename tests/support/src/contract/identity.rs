//! Keystone.

use capo_core::FailureClass;
use reqwest::Method;
use serde_json::json;

use super::{CloudUnderTest, Contract, cloud, refused};

pub async fn a_password_a_token_and_an_application_credential_sign_in(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let access = under.access();
    let project = contract.cloud.project_id().await.unwrap();
    let by_token = cloud(&format!(
        "{{auth: {{auth_url: '{}', token: '{}', project_id: {project}}}}}",
        access.auth_url,
        contract.raw.token()
    ));
    assert_eq!(by_token.project_id().await.unwrap(), project);

    let url = format!("{}/application_credentials", contract.raw.me());
    let body = json!({"application_credential": {"name": contract.name}});
    let (status, body) = contract.raw.send(Method::POST, &url, Some(body)).await;
    assert_eq!(status, 201, "{body}");
    let id = body["application_credential"]["id"].as_str().unwrap();
    let secret = body["application_credential"]["secret"].as_str().unwrap();
    let entry = format!(
        "{{auth_type: v3applicationcredential, auth: {{auth_url: '{}', application_credential_id: {id}, application_credential_secret: '{secret}'}}}}",
        access.auth_url
    );
    assert_eq!(cloud(&entry).project_id().await.unwrap(), project);

    let (status, _) = contract
        .raw
        .send(Method::DELETE, &format!("{url}/{id}"), None)
        .await;
    assert_eq!(status, 204);
    let error = refused(cloud(&entry).project_id().await);
    assert_eq!(
        (error.class(), error.status()),
        (FailureClass::Auth, Some(404)),
        "{error}"
    );
}

pub async fn what_is_refused_reads_as_refused(under: &impl CloudUnderTest) {
    let access = under.access();
    let entry = |password: &str, project: &str| {
        format!(
            "{{auth: {{auth_url: '{}', username: {}, password: {password}, project_name: {project}, user_domain_name: Default, project_domain_name: Default}}}}",
            access.auth_url, access.user
        )
    };
    for entry in [
        entry("wrong", &access.project),
        entry(&access.password, "no-such-project"),
    ] {
        let error = refused(cloud(&entry).project_id().await);
        assert_eq!(
            (error.class(), error.status()),
            (FailureClass::Auth, Some(401))
        );
        assert!(
            error
                .message()
                .ends_with("The request you have made requires authentication."),
            "{error}"
        );
    }
}
