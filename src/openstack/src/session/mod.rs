//! Sessions: a token, its project, and the catalogue that Keystone sent with it.

pub(crate) mod catalogue;
pub(crate) mod discovery;
pub(crate) mod sign_in;
pub(crate) mod token;

use capo_core::ids::ProjectId;
use secrecy::SecretString;
use tokio::time::Instant;

use catalogue::Catalogue;

/// A token in use.
pub(crate) struct Session {
    pub(crate) token: SecretString,
    pub(crate) project_id: ProjectId,
    pub(crate) catalogue: Catalogue,
    pub(crate) issued: Instant,
    pub(crate) renew_at: Instant,
    pub(crate) expires: Instant,
}
