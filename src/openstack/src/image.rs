//! Glance: images.

use serde::Deserialize;

use crate::{
    Service,
    request::{Call, calls},
    wire::null_as_default,
};
use capo_core::ids::ImageId;
use capo_core::wire_enum;

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

/// Glance reads a leading `in:` as the start of a list, so a name that starts with it is sent as a list of one name.
fn sent_name(name: &str) -> String {
    if name.starts_with("in:") {
        format!("in:\"{name}\"")
    } else {
        name.to_owned()
    }
}

calls! {
    /// Images that match.
    fn images(filter: &ImageFilter) -> Vec<Image> = list(
        Call::get(Service::Image, "image_list", ["images"])
            .each("name", filter.name.as_deref().map(sent_name))
            .each("tag", &filter.tags),
        "images"
    );

    /// One image.
    fn image(id: &ImageId) -> Image =
        whole(Call::get(Service::Image, "image_get", ["images", id.as_str()]));
}
