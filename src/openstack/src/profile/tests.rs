use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use secrecy::ExposeSecret as _;

use super::credential::{Credential, Domain, Named};
use super::*;

const PASSWORD: &str = "s3cret-canary";

fn secret(yaml: &str) -> BTreeMap<String, ByteString> {
    BTreeMap::from([("clouds.yaml".to_owned(), ByteString(yaml.into()))])
}

fn cloud(fields: &str) -> String {
    format!("clouds:\n  one:\n{fields}\n  two: {{}}\n")
}

fn read(fields: &str) -> Result<CloudProfile, ProfileError> {
    CloudProfile::from_secret(&secret(&cloud(fields)), "one", None)
}

const PLAIN: &str = r"
    auth:
      auth_url: http://keystone:5000
      username: demo
      password: s3cret-canary
      project_name: demo
      user_domain_name: Default
      project_domain_id: default
";

#[test]
fn a_password() {
    let profile = read(PLAIN).unwrap();
    assert_eq!(profile.auth_url.as_str(), "http://keystone:5000/v3");
    assert_eq!(profile.interface, Interface::Public);
    assert!(profile.verify && profile.region.is_none() && profile.remarks.is_empty());
    let Credential::Password {
        user,
        password,
        project,
    } = &profile.credential
    else {
        panic!("not a password");
    };
    assert_eq!(
        user,
        &Named::Name {
            name: "demo".into(),
            domain: Domain::Name("Default".into())
        }
    );
    assert_eq!(
        project,
        &Named::Name {
            name: "demo".into(),
            domain: Domain::Id("default".into())
        }
    );
    assert_eq!(password.expose_secret(), PASSWORD);
    assert!(!format!("{profile:?}").contains(PASSWORD));
}

#[test]
fn every_way_to_write_a_credential() {
    let table = [
        (
            "auth_type: v3applicationcredential\n    auth: {auth_url: 'https://k/v3/', application_credential_id: i, application_credential_secret: s}",
            "application credential",
        ),
        (
            "auth: {auth_url: https://k, application_credential_name: n, username: u, user_domain_id: d, application_credential_secret: s}",
            "application credential",
        ),
        (
            "auth_type: token\n    auth: {auth_url: https://k, token: t, project_id: p}",
            "token",
        ),
        (
            "auth: {auth_url: https://k, token: t, project_id: p}",
            "token",
        ),
        (
            "auth_type: v3password\n    auth: {auth_url: https://k/identity, user_id: u, password: 0123, project_id: p}",
            "password",
        ),
        (
            "auth: {auth_url: https://k, username: u, password: p, tenant_name: t, domain_name: d}",
            "password",
        ),
        (
            "auth: {auth_url: https://xn--bcher-kva.example, username: u, password: p, project_name: t, default_domain: d}",
            "password",
        ),
    ];
    for (fields, kind) in table {
        let profile = read(&format!("    {fields}")).unwrap_or_else(|e| panic!("{fields}: {e}"));
        let found = match &profile.credential {
            Credential::Password { .. } => "password",
            Credential::Token { .. } => "token",
            Credential::Application { .. } => "application credential",
        };
        assert_eq!(found, kind, "{fields}");
        assert!(
            profile.auth_url.path().ends_with("/v3"),
            "{}",
            profile.auth_url
        );
    }
}

#[test]
fn numbers_are_taken_as_they_are_written() {
    let profile = read(
        "    auth: {auth_url: https://k, user_id: 7, password: 0123, project_id: 1e5}\n    region_name: 42",
    );
    let profile = profile.unwrap();
    let Credential::Password {
        password, project, ..
    } = &profile.credential
    else {
        panic!("not a password");
    };
    assert_eq!(password.expose_secret(), "0123");
    assert_eq!(project, &Named::Id("1e5".into()));
    assert_eq!(profile.region(), Some("42"));
}

#[test]
fn region_interface_verify_and_what_is_ignored() {
    let profile = read(&format!(
        "{PLAIN}    region_name: One\n    interface: internal\n    endpoint_type: adminURL\n    verify: false\n    cacert: /etc/ca.pem\n    cert: c\n    key: k\n    regions: [a, b]"
    ))
    .unwrap();
    assert_eq!(profile.interface, Interface::Internal);
    assert_eq!(profile.region(), Some("One"));
    assert!(!profile.verify);
    assert!(profile.authorities.is_none());
    assert_eq!(profile.remarks().len(), 5, "{:?}", profile.remarks());

    let other = read(&format!("{PLAIN}    endpoint_type: adminURL")).unwrap();
    assert_eq!(other.interface, Interface::Admin);

    let yaml = secret(&cloud(&format!("{PLAIN}    region_name: One")));
    let overridden = CloudProfile::from_secret(&yaml, "one", Some("Two")).unwrap();
    assert_eq!(overridden.region(), Some("Two"));
    assert_ne!(
        overridden,
        read(&format!("{PLAIN}    region_name: One")).unwrap()
    );
}

#[test]
fn errors_name_field_found_and_allowed_and_no_secret() {
    let auth = "auth: {auth_url: https://k, username: u, password: s3cret-canary, project_name: p, domain_name: d}";
    let table = [
        (String::new(), "clouds.one.auth is missing: how to sign in"),
        (
            format!("    interface: outer\n    {auth}"),
            "clouds.one.interface is `outer`; allowed: public, internal, admin (each also with URL behind)",
        ),
        (
            format!("    auth_type: v2password\n    {auth}"),
            "clouds.one.auth_type is `v2password`; allowed: password, token, v3password, v3token, v3applicationcredential",
        ),
        (
            "    auth: {auth_url: 'ftp://k', username: u}".to_owned(),
            "clouds.one.auth.auth_url is `ftp://k/`; allowed: an http or https URL of Keystone's Identity API v3, without user or query",
        ),
        (
            "    auth: {auth_url: 'https://u:s3cret-canary@k', username: u}".to_owned(),
            "clouds.one.auth.auth_url is `a URL with user, password or query`; allowed: an http or https URL of Keystone's Identity API v3, without user or query",
        ),
        (
            "    auth: {auth_url: 'https://bücher.example', username: u}".to_owned(),
            "clouds.one.auth.auth_url is `a URL whose host name is not in its ASCII form (xn--...)`; allowed: an http or https URL",
        ),
        (
            "    auth: {username: u}".to_owned(),
            "clouds.one.auth.auth_url is missing: where Keystone is",
        ),
        (
            "    auth: {auth_url: https://k, user_id: u, project_id: p}".to_owned(),
            "clouds.one.auth.password is missing: auth_type is password",
        ),
        (
            "    auth: {auth_url: https://k, user_id: u, password: s3cret-canary}".to_owned(),
            "clouds.one.auth.project_name is missing: the project in which all objects are created (or auth.project_id)",
        ),
        (
            "    auth: {auth_url: https://k, application_credential_id: u}".to_owned(),
            "clouds.one.auth.application_credential_secret is missing: auth_type is v3applicationcredential",
        ),
        (
            "    verify: s3cret-canary\n    auth: {}".to_owned(),
            "`clouds.yaml` can't be read: line 3, column",
        ),
        (
            "    auth: [s3cret-canary]".to_owned(),
            "`clouds.yaml` can't be read: line 3, column",
        ),
        (
            "    auth: {password: s3cret-canary".to_owned(),
            "`clouds.yaml` can't be read: line ",
        ),
        (
            "    auth: {password: s3cret-canary, password: s3cret-canary}".to_owned(),
            "`clouds.yaml` can't be read: line 3, column",
        ),
    ];
    for (fields, expected) in table {
        let text = read(&fields).unwrap_err().to_string();
        assert!(
            text.starts_with(expected),
            "{fields}\n  {text}\n  {expected}"
        );
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

#[test]
fn the_secret_itself() {
    let error = |data: BTreeMap<String, ByteString>, name: &str| {
        CloudProfile::from_secret(&data, name, None)
            .unwrap_err()
            .to_string()
    };
    let other_key = BTreeMap::from([("cloud.yaml".to_owned(), ByteString(Vec::new()))]);
    assert_eq!(
        error(other_key, "one"),
        "the Secret has no key `clouds.yaml`; it has `cloud.yaml`"
    );
    assert_eq!(
        error(secret(&cloud(PLAIN)), "three"),
        "`clouds.yaml` has no cloud `three`; it has `one`, `two`"
    );
    assert_eq!(error(secret(""), "one"), "`clouds.yaml` has no cloud `one`");
    let large = "#".repeat(300_000);
    assert!(error(secret(&large), "one").contains("300000 bytes"));
    let binary = BTreeMap::from([("clouds.yaml".to_owned(), ByteString(vec![0xff, 0xfe]))]);
    assert_eq!(error(binary, "one"), "`clouds.yaml` is not UTF-8 text");
    assert!(error(secret("clouds: 7"), "one").contains("line 1"));
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for letter in b'b'..=b'z' {
        let (this, last) = (letter as char, (letter - 1) as char);
        let six = [format!("*{last}").as_str(); 6].join(",");
        bomb = format!("{bomb}{this}: &{this} [{six}]\n");
    }
    bomb += "clouds: {one: *z}\n";
    let start = std::time::Instant::now();
    error(secret(&bomb), "one");
    let deep = format!("clouds: {}", "[".repeat(10_000));
    error(secret(&deep), "one");
    assert!(start.elapsed().as_secs() < 5);
}

#[test]
fn anchors_and_a_broken_neighbour_are_fine() {
    let yaml = "x: &auth {auth_url: https://k, user_id: u, password: p, project_id: p}\nclouds:\n  one: {auth: *auth}\n  two: {auth: 7, verify: [1]}\n";
    CloudProfile::from_secret(&secret(yaml), "one", None).unwrap();
}

#[test]
fn authorities_are_read_or_refused() {
    let certificate = rcgen::generate_simple_self_signed(["keystone".to_owned()])
        .unwrap()
        .cert
        .pem();
    let with = |pem: &[u8]| {
        let mut data = secret(&cloud(PLAIN));
        data.insert("cacert".to_owned(), ByteString(pem.to_vec()));
        CloudProfile::from_secret(&data, "one", None)
    };
    let profile = with(format!("{certificate}{certificate}").as_bytes()).unwrap();
    assert!(profile.authorities.is_some());
    assert_ne!(profile, read(PLAIN).unwrap());
    assert!(with(b"").unwrap().authorities.is_none());
    let bad = |pem: &[u8]| with(pem).unwrap_err().to_string();
    assert_eq!(
        bad(b"nonsense"),
        "`cacert` is not a list of PEM certificates: it has no CERTIFICATE block"
    );
    assert_eq!(
        bad(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        "`cacert` is not a list of PEM certificates: certificate 1 can't be read"
    );
    let cut = certificate.replace("-----END CERTIFICATE-----", "");
    assert!(bad(cut.as_bytes()).starts_with("`cacert` is not a list of PEM certificates: "));
    assert_eq!(bad(&[0xff]), "`cacert` is not UTF-8 text");
}

#[test]
fn profiles_are_compared_in_full() {
    let one = read(PLAIN).unwrap();
    assert_eq!(one, read(PLAIN).unwrap());
    for changed in [
        PLAIN.replace(PASSWORD, "other"),
        PLAIN.replace("project_name: demo", "project_name: demo2"),
        PLAIN.replace("5000", "5001"),
        format!("{PLAIN}    verify: false"),
        format!("{PLAIN}    interface: admin"),
    ] {
        assert_ne!(one, read(&changed).unwrap(), "{changed}");
    }
    let key = |yaml: &str| CredentialKey(read(yaml).unwrap());
    assert!(
        key(PLAIN)
            == key(&format!(
                "{PLAIN}    interface: admin\n    region_name: Two"
            ))
    );
    assert!(key(PLAIN) != key(&PLAIN.replace(PASSWORD, "other")));
}
