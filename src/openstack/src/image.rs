//! Glance: images.

use serde::Deserialize;

use crate::{Cloud, Error, Service, request::Call, wire::null_as_default};
use capo_core::ids::ImageId;
use capo_core::{Priority, wire_enum};

wire_enum! {
    /// An image's status.
    pub enum ImageStatus {
        /// Can be booted.
        Active = "active",
        /// Has no data yet.
        Queued = "queued",
        /// Is being uploaded.
        Saving = "saving",
        /// Is being imported.
        Importing = "importing",
        /// Deactivated by an administrator.
        Deactivated = "deactivated",
        /// Unusable, because its data could not be stored.
        Killed = "killed",
        /// Deleted.
        Deleted = "deleted",
    }
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Image {
    /// Glance's id.
    pub id: ImageId,
    /// Its name; not unique.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its status.
    #[serde(default)]
    pub status: ImageStatus,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// The guest's operating system, where the image has this property.
    #[serde(default)]
    pub os_type: Option<String>,
}

/// The images to list: those that match every field which is set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ImageFilter {
    /// The exact name.
    pub name: Option<String>,
    /// Has all of these tags.
    pub tags: Vec<String>,
}

impl Cloud {
    /// Images that match.
    pub async fn images(
        &self,
        filter: &ImageFilter,
        priority: Priority,
    ) -> Result<Vec<Image>, Error> {
        let mut call = Call::get(Service::Image, "image_list", ["images"]).at(priority);
        if let Some(name) = &filter.name {
            // Glance reads a leading `in:` as the start of a list, so a name that starts with it is sent as a list of
            // one name.
            call = if name.starts_with("in:") {
                call.query("name", format!("in:\"{name}\""))
            } else {
                call.query("name", name.clone())
            };
        }
        for tag in &filter.tags {
            call = call.query("tag", tag.clone());
        }
        self.list(call, "images").await
    }

    /// One image.
    pub async fn image(&self, id: &ImageId, priority: Priority) -> Result<Image, Error> {
        let call = Call::get(Service::Image, "image_get", ["images", id.as_str()]).at(priority);
        self.whole(call).await
    }
}
