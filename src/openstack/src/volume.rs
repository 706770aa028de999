//! Cinder: volumes.

use serde::{Deserialize, Serialize};

use crate::{
    Service,
    request::{Call, calls},
    wire::null_as_default,
};
use capo_core::ids::{ImageId, ServerId, VolumeId};
use capo_core::wire_enum;

const CINDER: Service = Service::Volume;

wire_enum! {
    /// A volume's status.
    pub enum VolumeStatus {
        /// Being created.
        Creating = "creating",
        /// Being filled from an image.
        Downloading = "downloading",
        /// Not in use.
        Available = "available",
        /// Reserved for a server.
        Reserved = "reserved",
        /// Being attached.
        Attaching = "attaching",
        /// Attached.
        InUse = "in-use",
        /// Being detached.
        Detaching = "detaching",
        /// Being deleted.
        Deleting = "deleting",
        /// In ERROR.
        Error = "error",
        /// Its deletion failed.
        ErrorDeleting = "error_deleting",
    }
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Volume {
    /// Cinder's id.
    pub id: VolumeId,
    /// Its name; not unique.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its description.
    #[serde(default, deserialize_with = "null_as_default")]
    pub description: String,
    /// Its status.
    #[serde(default)]
    pub status: VolumeStatus,
    /// The size in GiB.
    #[serde(default)]
    pub size: u32,
    /// Its zone.
    #[serde(default)]
    pub availability_zone: Option<String>,
    /// Whether it may be attached to several servers at the same time.
    #[serde(default, deserialize_with = "null_as_default")]
    pub multiattach: bool,
    /// The servers to which it is attached.
    #[serde(default, deserialize_with = "null_as_default")]
    pub attachments: Vec<VolumeAttachment>,
}

/// A server to which a volume is attached.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct VolumeAttachment {
    /// Nova's id of the server.
    #[serde(default, deserialize_with = "null_as_default")]
    pub server_id: ServerId,
}

/// A volume to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct NewVolume {
    /// Its name.
    pub name: String,
    /// Its description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The size in GiB.
    pub size: u32,
    /// Its type; Cinder uses its default where none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<String>,
    /// Its availability zone; Cinder uses its default where none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// The image whose data it is filled with.
    #[serde(rename = "imageRef", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<ImageId>,
}

calls! {
    /// Volumes of this exact name, of this project only.
    fn volumes(name: &str) -> Vec<Volume> =
        list(Call::get(CINDER, "volume_list", ["volumes", "detail"]).query("name", name), "volumes");

    /// One volume.
    fn volume(id: &VolumeId) -> Volume =
        one(Call::get(CINDER, "volume_get", ["volumes", id.as_str()]), "volume");

    /// Requests the creation of a volume. It is `creating` in the answer.
    fn create_volume(new: &NewVolume) -> Volume =
        one(Call::post(CINDER, "volume_create", ["volumes"]).json("volume", new), "volume");

    /// Requests the deletion of a volume. The volume is deleted when Cinder answers 404.
    fn delete_volume(id: &VolumeId) -> () =
        done(Call::delete(CINDER, "volume_delete", ["volumes", id.as_str()]));
}
