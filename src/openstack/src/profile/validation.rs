//! Turns the fields of a clouds.yaml into a profile.

use url::{ParseError, Url};

use crate::{
    profile::{
        cloud_profile::{CloudProfile, Interface},
        clouds_yaml::{RawAuth, RawCloud},
        credential::{ApplicationCredentialName, Credential, Domain, Named},
        error::ProfileError,
    },
    send::error_text,
};

/// Reads a cloud's entry as a profile. The error names the field that can't be used.
pub(super) fn validated(name: &str, raw: RawCloud) -> Result<CloudProfile, ProfileError> {
    let at = At { cloud: name };
    let remarks = remarks(&raw);
    let auth = raw
        .auth
        .ok_or_else(|| at.missing("auth", "how to sign in"))?;
    let auth_url = auth_url(&at, auth.auth_url.as_deref())?;
    let interface = interface(&at, raw.interface.as_deref(), raw.endpoint_type.as_deref())?;
    let verify = raw.verify.is_none_or(|flag| flag.0) && !raw.insecure.is_some_and(|flag| flag.0);
    let credential = credential(&at, raw.auth_type.as_deref(), auth)?;
    Ok(CloudProfile {
        name: name.to_owned(),
        auth_url,
        credential,
        region: given(raw.region_name),
        interface,
        verify,
        authorities: None,
        remarks,
    })
}

fn remarks(raw: &RawCloud) -> Vec<String> {
    let path = "names a file: ignored, put the certificates under the key `cacert` of the Secret";
    let mut remarks = Vec::new();
    let mut ignored = |present: bool, field: &str, why: &str| {
        if present {
            remarks.push(format!("{field} {why}"));
        }
    };
    ignored(raw.cacert.is_some(), "cacert", path);
    let client = "names a file of a client certificate: ignored, not supported";
    ignored(raw.cert.is_some(), "cert", client);
    ignored(raw.key.is_some(), "key", client);
    let vendor = "names a vendor's profile: ignored, not supported";
    ignored(raw.profile.is_some(), "profile", vendor);
    ignored(raw.cloud.is_some(), "cloud", vendor);
    let regions = "lists several regions: ignored, only region_name counts";
    ignored(raw.regions.is_some(), "regions", regions);
    let unverified = raw.verify.is_some_and(|flag| !flag.0) || raw.insecure.is_some_and(|f| f.0);
    ignored(
        unverified,
        "verify",
        "is false: certificates are not checked",
    );
    remarks
}

/// The place in the document, for errors.
struct At<'a> {
    cloud: &'a str,
}

impl At<'_> {
    fn missing(&self, field: &'static str, why: &'static str) -> ProfileError {
        ProfileError::Missing {
            cloud: self.cloud.to_owned(),
            field,
            why,
        }
    }

    fn not_allowed(&self, field: &'static str, found: &str, allowed: &'static str) -> ProfileError {
        ProfileError::Refused {
            cloud: self.cloud.to_owned(),
            field,
            found: error_text::stable(found),
            allowed,
        }
    }
}

/// The text, if it is present and not empty.
fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

fn auth_url(at: &At<'_>, text: Option<&str>) -> Result<Url, ProfileError> {
    const FIELD: &str = "auth.auth_url";
    const ALLOWED: &str =
        "an http or https URL of Keystone's Identity API v3, without user or query";
    let text = text
        .filter(|text| !text.trim().is_empty())
        .ok_or_else(|| at.missing(FIELD, "where Keystone is"))?;
    // The error must not show a URL that has a password in it.
    let refused = |shown: &str| at.not_allowed(FIELD, shown, ALLOWED);
    let mut url = Url::parse(text.trim()).map_err(|error| {
        refused(match error {
            ParseError::IdnaError => "a URL whose host name is not in its ASCII form (xn--...)",
            _ => "not a URL",
        })
    })?;
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        return Err(refused("a URL with user, password or query"));
    }
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(refused(url.as_str()));
    }
    url.set_fragment(None);
    let last = url
        .path_segments()
        .and_then(|segments| segments.rev().find(|segment| !segment.is_empty()))
        .map(str::to_owned);
    match last.as_deref() {
        Some("v3") => {
            let path = url.path().trim_end_matches('/').to_owned();
            url.set_path(&path);
        }
        Some("v2.0") => return Err(refused(url.as_str())),
        _ => {
            let path = format!("{}/v3", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
    }
    Ok(url)
}

/// `interface` takes precedence over `endpoint_type`, its older name.
fn interface(
    at: &At<'_>,
    interface: Option<&str>,
    endpoint_type: Option<&str>,
) -> Result<Interface, ProfileError> {
    let (field, text) = match (interface, endpoint_type) {
        (Some(text), _) if !text.is_empty() => ("interface", text),
        (_, Some(text)) if !text.is_empty() => ("endpoint_type", text),
        _ => return Ok(Interface::Public),
    };
    match text.strip_suffix("URL").unwrap_or(text) {
        "public" => Ok(Interface::Public),
        "internal" => Ok(Interface::Internal),
        "admin" => Ok(Interface::Admin),
        _ => Err(at.not_allowed(
            field,
            text,
            "public, internal, admin (each also with URL behind)",
        )),
    }
}

fn credential(
    at: &At<'_>,
    auth_type: Option<&str>,
    auth: RawAuth,
) -> Result<Credential, ProfileError> {
    let by_fields = || {
        if auth.application_credential_id.is_some()
            || auth.application_credential_name.is_some()
            || auth.application_credential_secret.is_some()
        {
            "v3applicationcredential"
        } else if auth.token.is_some() && auth.password.is_none() {
            "v3token"
        } else {
            "v3password"
        }
    };
    match auth_type
        .filter(|text| !text.is_empty())
        .unwrap_or_else(by_fields)
    {
        "password" | "v3password" => Ok(Credential::Password {
            user: user(at, &auth)?,
            project: project(at, &auth)?,
            password: auth
                .password
                .ok_or_else(|| at.missing("auth.password", "auth_type is password"))?,
        }),
        "token" | "v3token" => Ok(Credential::Token {
            project: project(at, &auth)?,
            token: auth
                .token
                .ok_or_else(|| at.missing("auth.token", "auth_type is token"))?,
        }),
        "v3applicationcredential" => {
            let name = match (
                given(auth.application_credential_id.clone()),
                given(auth.application_credential_name.clone()),
            ) {
                (Some(id), _) => ApplicationCredentialName::Id(id),
                (None, Some(name)) => ApplicationCredentialName::OfUser {
                    name,
                    user: user(at, &auth)?,
                },
                (None, None) => {
                    return Err(at.missing(
                        "auth.application_credential_id",
                        "auth_type is v3applicationcredential (or application_credential_name with the user)",
                    ));
                }
            };
            Ok(Credential::Application {
                name,
                secret: auth.application_credential_secret.ok_or_else(|| {
                    at.missing(
                        "auth.application_credential_secret",
                        "auth_type is v3applicationcredential",
                    )
                })?,
            })
        }
        other => Err(at.not_allowed(
            "auth_type",
            other,
            "password, token, v3password, v3token, v3applicationcredential",
        )),
    }
}

fn user(at: &At<'_>, auth: &RawAuth) -> Result<Named, ProfileError> {
    if let Some(id) = given(auth.user_id.clone()) {
        return Ok(Named::Id(id));
    }
    let name = given(auth.username.clone())
        .ok_or_else(|| at.missing("auth.username", "the user who signs in (or auth.user_id)"))?;
    let domain = domain(auth, auth.user_domain_id.as_ref(), auth.user_domain_name.as_ref()).ok_or_else(|| {
        at.missing(
            "auth.user_domain_name",
            "the domain of auth.username (or user_domain_id, domain_name, domain_id, default_domain)",
        )
    })?;
    Ok(Named::Name { name, domain })
}

fn project(at: &At<'_>, auth: &RawAuth) -> Result<Named, ProfileError> {
    if let Some(id) = given(auth.project_id.clone()).or_else(|| given(auth.tenant_id.clone())) {
        return Ok(Named::Id(id));
    }
    let name = given(auth.project_name.clone())
        .or_else(|| given(auth.tenant_name.clone()))
        .ok_or_else(|| {
            at.missing(
                "auth.project_name",
                "the project in which all objects are created (or auth.project_id)",
            )
        })?;
    let domain = domain(auth, auth.project_domain_id.as_ref(), auth.project_domain_name.as_ref())
        // If only the user's domain is given, the project is assumed to be in the same domain.
        .or_else(|| domain(auth, auth.user_domain_id.as_ref(), auth.user_domain_name.as_ref()))
        .ok_or_else(|| {
            at.missing(
                "auth.project_domain_name",
                "the domain of auth.project_name (or project_domain_id, domain_name, domain_id, default_domain)",
            )
        })?;
    Ok(Named::Name { name, domain })
}

fn domain(auth: &RawAuth, id: Option<&String>, name: Option<&String>) -> Option<Domain> {
    let given = |text: Option<&String>| given(text.cloned());
    given(id)
        .map(Domain::Id)
        .or_else(|| given(name).map(Domain::Name))
        .or_else(|| given(auth.domain_id.as_ref()).map(Domain::Id))
        .or_else(|| given(auth.domain_name.as_ref()).map(Domain::Name))
        .or_else(|| given(auth.default_domain.as_ref()).map(Domain::Id))
}
