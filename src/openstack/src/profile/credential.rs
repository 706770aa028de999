//! The credentials of a sign-in, and their project.

use secrecy::{ExposeSecret, SecretString};

/// The method of the sign-in.
#[derive(Clone)]
pub(crate) enum Credential {
    Password {
        user: Named,
        password: SecretString,
        project: Named,
    },
    Token {
        token: SecretString,
        project: Named,
    },
    Application {
        name: ApplicationCredentialName,
        secret: SecretString,
    },
}

/// A user or project: by id, or by name within a domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Named {
    Id(String),
    Name { name: String, domain: Domain },
}

/// A domain by id or name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Domain {
    Id(String),
    Name(String),
}

/// An application credential: by id, or by name and user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ApplicationCredentialName {
    Id(String),
    OfUser { name: String, user: Named },
}

impl Credential {
    /// The texts in it that must never be shown.
    pub(crate) fn secrets(&self) -> [&str; 1] {
        [match self {
            Self::Password { password, .. } => password.expose_secret(),
            Self::Token { token, .. } => token.expose_secret(),
            Self::Application { secret, .. } => secret.expose_secret(),
        }]
    }
}

impl PartialEq for Credential {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: &SecretString, b: &SecretString| a.expose_secret() == b.expose_secret();
        match (self, other) {
            (
                Self::Password {
                    user,
                    password,
                    project,
                },
                Self::Password {
                    user: other_user,
                    password: other_password,
                    project: other_project,
                },
            ) => user == other_user && project == other_project && same(password, other_password),
            (
                Self::Token { token, project },
                Self::Token {
                    token: other_token,
                    project: other_project,
                },
            ) => project == other_project && same(token, other_token),
            (
                Self::Application { name, secret },
                Self::Application {
                    name: other_name,
                    secret: other_secret,
                },
            ) => name == other_name && same(secret, other_secret),
            _ => false,
        }
    }
}

impl Eq for Credential {}
