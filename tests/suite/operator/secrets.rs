//! Secret texts are searched for in everything that the manager prints, at every verbosity.

use base64::Engine as _;
use fake_cloud::Command;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{DynamicObject, ListParams},
};
use serde_json::json;
use test_support::waiting::PATIENCE;

use super::until;
use crate::{
    env::{
        apply::apply,
        cluster_api::{BOOTSTRAP_CANARY, api},
        manager::get,
    },
    whole::isolated::IsolatedEnvironment,
};

const PASSWORD: &str = "canary-password-7f3a";
const WRONG: &str = "canary-wrong-password-91bc";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_secret_is_said_at_any_verbosity() {
    let environment = IsolatedEnvironment::start().await;
    let admin = environment.kubernetes.admin().await.unwrap();
    let control = environment.cloud.control();
    // Every credential that the cloud accepts is such a text.
    control
        .command(Command::User {
            name: "demo".to_owned(),
            password: PASSWORD.to_owned(),
            project: "demo".to_owned(),
            roles: vec!["member".to_owned()],
        })
        .unwrap();
    let clouds = environment.cloud.clouds_yaml();
    let secret = |password: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud-config", "namespace": "default"},
            "stringData": {"clouds.yaml": clouds.replace("password: secret", &format!("password: {password}"))}})
    };
    let mut said = String::new();
    for (round, verbosity) in [0, 2, 4, 5, 10].into_iter().enumerate() {
        let name = format!("quiet-{verbosity}");
        let format = if round % 2 == 0 {
            "--logging-format=text"
        } else {
            "--logging-format=json"
        };
        let level = format!("--v={verbosity}");
        let mut manager = environment
            .ready_manager(&name, &["--leader-elect", &level, format])
            .await;
        // The manager first gets a password that is refused, so that it reports an error, and then the right one.
        apply(&admin, &[secret(WRONG)]).await.unwrap();
        environment
            .create_cluster(&name, &format!("127.{}.0.0/24", 70 + round))
            .await;
        let clusters: Api<DynamicObject> = api(&admin, "default", "OpenStackCluster");
        until("the wrong password is reported", async || {
            let object = clusters.get(&name).await.unwrap();
            object.data["status"]["conditions"]
                .to_string()
                .contains("AuthFailed")
                .then_some(())
        })
        .await;
        apply(&admin, &[secret(PASSWORD)]).await.unwrap();
        environment
            .until_provisioned("OpenStackCluster", &name)
            .await;
        if round % 2 == 0 {
            let machine = format!("{name}-cp");
            environment.create_machine(&name, &machine, true).await;
            environment
                .until_provisioned("OpenStackMachine", &machine)
                .await;
        }
        for path in ["/readyz?verbose", "/healthz"] {
            said += &get(&manager.health_url(path)).await.unwrap().1;
        }
        said += &manager.metrics().await;
        environment.delete_cluster(&name).await;
        manager.process.signal("TERM").unwrap();
        manager.process.wait(PATIENCE).unwrap();
        let log = std::fs::read_to_string(manager.process.log()).unwrap();
        // The search proves something only if the log reports the use of the credentials, so the refusal must be in the
        // log.
        assert!(
            verbosity == 0 || log.contains("AuthFailed"),
            "{verbosity}: {log}"
        );
        assert!(verbosity < 4 || log.contains("DEBUG"), "{verbosity}");
        said += &log;
        for kind in [
            "OpenStackCluster",
            "OpenStackMachine",
            "OpenStackServer",
            "Machine",
            "Cluster",
        ] {
            let all: Api<DynamicObject> = api(&admin, "default", kind);
            let objects = all.list(&ListParams::default()).await.unwrap();
            said += &serde_json::to_string(&objects).unwrap();
        }
    }
    let events: Api<Event> = Api::namespaced(admin.clone(), "default");
    let events = events.list(&ListParams::default()).await.unwrap();
    said += &serde_json::to_string(&events).unwrap();

    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    for canary in [PASSWORD, WRONG, BOOTSTRAP_CANARY] {
        for form in [canary.to_owned(), encode(canary)] {
            assert!(!said.contains(&form), "{form} was said");
        }
    }
    // Tokens: whatever the cloud handed out.
    assert!(
        !said.contains("gAAAA") && !said.to_lowercase().contains("x-auth-token:"),
        "a token was said"
    );
}
