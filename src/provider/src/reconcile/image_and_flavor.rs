//! The image and the flavor that a spec names: what a server boots from and how large it is.

use std::time::Duration;

use kube::{Api, api::DynamicObject};
use serde::Deserialize as _;

use super::{
    StepError, StepResult,
    capi::SeenCondition,
    filters,
    image_objects::{self, ImageObjects},
    server_error::{self, failed, failure, wait},
};
use crate::kubernetes::patch::is_not_found;
use capo_api::v1beta2::ImageParam;
use capo_core::{
    ConditionStatus, FailureClass, ObjectName, Priority, Reason,
    ids::{FlavorId, ImageId},
};
use capo_openstack::{
    Cloud, Error,
    compute::Flavor,
    image::{Image, ImageFilter},
};

/// How long the result of a lookup by id is used. The object behind an id does not change, but it may have been
/// deleted.
const KEPT: Duration = Duration::from_mins(10);

/// The inputs of the lookup of images and flavors.
pub(crate) struct ImageAndFlavor<'a> {
    /// The cloud.
    pub cloud: &'a Cloud,
    /// The management cluster, for images that are Kubernetes objects.
    pub client: &'a kube::Client,
    /// The namespace of the object whose spec names the image and the flavor.
    pub namespace: &'a str,
    /// The path of the spec in that object, for messages.
    pub spec: &'static str,
    /// The priority of the requests.
    pub priority: Priority,
    /// The index of waiting servers and the name of the server that is enqueued when the Image object changes.
    pub waiter: Option<(&'a ImageObjects, &'a str)>,
}

/// An image, or only its id if nothing else is known of it.
enum Found {
    Whole(Image),
    Id(ImageId),
}

impl ImageAndFlavor<'_> {
    /// The id of an image.
    pub(crate) async fn image_id(&self, param: &ImageParam) -> StepResult<ImageId> {
        Ok(match self.find(param).await? {
            Found::Whole(image) => image.id,
            Found::Id(id) => id,
        })
    }

    /// An image with all properties that Glance shows.
    pub(crate) async fn image(&self, param: &ImageParam) -> StepResult<Image> {
        match self.find(param).await? {
            Found::Whole(image) => Ok(image),
            Found::Id(id) => self.image_by_id("image.imageRef", &id).await,
        }
    }

    /// The flavor with this id, which `field` of the spec names.
    pub(crate) async fn flavor_by_id(&self, field: &str, id: &FlavorId) -> StepResult<Flavor> {
        let shared = self.cloud.shared_reads();
        let found = shared.flavor(id, KEPT, self.priority).await;
        self.named(found, field, "flavor", id.as_str())
    }

    /// The only flavor of this name, which `field` of the spec names.
    pub(crate) async fn flavor_by_name(&self, field: &str, name: &str) -> StepResult<Flavor> {
        let shared = self.cloud.shared_reads();
        let shared = &shared;
        let look_up = |age| async move {
            let all = shared.flavors(age, self.priority).await?;
            let named = all.iter().filter(|flavor| flavor.name == name);
            Ok(named.cloned().collect())
        };
        let flavors = filters::looked_up(look_up).await?;
        let what = format!("flavor named \"{name}\"");
        let field = format!("{}.{field}", self.spec);
        filters::only_one(flavors, &field, &what, |flavor| flavor.id.as_str())
    }

    async fn find(&self, param: &ImageParam) -> StepResult<Found> {
        match param {
            ImageParam { id: Some(id), .. } => {
                let id = id.as_str().into();
                self.image_by_id("image.id", &id).await.map(Found::Whole)
            }
            ImageParam {
                image_ref: Some(reference),
                ..
            } => self.image_object(&reference.name).await.map(Found::Id),
            ImageParam {
                filter: Some(filter),
                ..
            } => {
                let query = ImageFilter {
                    name: filters::filled(filter.name.clone()),
                    tags: filter.tags.clone(),
                };
                let what = match &query.name {
                    Some(name) => format!("image named \"{name}\""),
                    None => format!("image with the tags {}", query.tags.join(", ")),
                };
                let shared = self.cloud.shared_reads();
                let images =
                    filters::looked_up(|age| shared.images(&query, age, self.priority)).await?;
                let field = format!("{}.image.filter", self.spec);
                filters::only_one(images, &field, &what, |image| image.id.as_str())
                    .map(Found::Whole)
            }
            _ => Err(self.missing("image", "one of id, filter and imageRef")),
        }
    }

    async fn image_by_id(&self, field: &str, id: &ImageId) -> StepResult<Image> {
        let shared = self.cloud.shared_reads();
        let found = shared.image(id, KEPT, self.priority).await;
        self.named(found, field, "image", id.as_str())
    }

    /// The Glance id of an Image object of the OpenStack Resource Controller in the same namespace.
    async fn image_object(&self, name: &str) -> StepResult<ImageId> {
        let resource = image_objects::resource();
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), self.namespace, &resource);
        let pause = match self.waiter {
            Some((images, server)) => {
                images.wait(
                    ObjectName::new(self.namespace, name),
                    ObjectName::new(self.namespace, server),
                );
                image_objects::LOOK_AGAIN
            }
            None => Duration::from_secs(10),
        };
        let field = format!("{}.image.imageRef", self.spec);
        match api.get(name).await {
            Ok(image) => ready_image(&image.data).ok_or_else(|| {
                let mut message = format!("{field}: the Image {name} is not Available yet");
                if let Some(why) = why_not_available(&image.data) {
                    message = format!("{message}: {why}");
                }
                wait(Reason::DependencyFailed, message, pause)
            }),
            // A kind that is not installed gives the same answer as an object that does not exist.
            Err(error) if is_not_found(&error) => Err(failure(
                FailureClass::NotFound,
                Reason::DependencyNotFound,
                format!(
                    "{field}: there is no Image {name} of openstack.k-orc.cloud in the namespace {}, or that kind is not installed",
                    self.namespace
                ),
            )),
            Err(error) => {
                tracing::debug!(%error, "Reading an Image object failed");
                Err(failure(
                    FailureClass::Transient,
                    Reason::DependencyFailed,
                    format!("{field}: the Image {name} could not be read from the Kubernetes API"),
                ))
            }
        }
    }

    /// Returns an object that the spec names by id. If it does not exist, the error says that the spec names an id
    /// without an object.
    fn named<T>(
        &self,
        found: Result<T, Error>,
        field: &str,
        what: &str,
        id: &str,
    ) -> StepResult<T> {
        found.map_err(|error| {
            if error.is_not_found() {
                failure(
                    FailureClass::NotFound,
                    Reason::DependencyNotFound,
                    format!("{}.{field}: there is no {what} with the id {id}", self.spec),
                )
            } else {
                failed(&error, Reason::DependencyFailed)
            }
        })
    }

    /// The error of a spec in which `field` is not set although it is needed.
    pub(crate) fn missing(&self, field: &str, wanted: &str) -> StepError {
        server_error::missing(&format!("{}.{field}", self.spec), wanted)
    }
}

/// The Glance id of an Image object whose condition Available is True.
fn ready_image(data: &serde_json::Value) -> Option<ImageId> {
    let status = data.get("status")?;
    let available = conditions(status)
        .iter()
        .any(|condition| condition.kind == "Available" && condition.is_true());
    let id = status.get("id")?.as_str().filter(|id| !id.is_empty())?;
    available.then(|| id.into())
}

/// The message of the Image object's own condition that says why it is not Available: that of Progressing if it is
/// False, or else that of Available.
fn why_not_available(data: &serde_json::Value) -> Option<String> {
    let conditions = conditions(data.get("status")?);
    let message = |kind: &str| {
        let found = conditions.iter().find(|condition| condition.kind == kind)?;
        let explains = found.status == ConditionStatus::False && !found.message.is_empty();
        explains.then(|| found.message.clone())
    };
    message("Progressing").or_else(|| message("Available"))
}

/// The conditions in the status of an Image object.
fn conditions(status: &serde_json::Value) -> Vec<SeenCondition> {
    let listed = status.get("conditions").and_then(|list| list.as_array());
    let conditions = listed.into_iter().flatten();
    conditions
        .filter_map(|condition| SeenCondition::deserialize(condition).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ready_image, why_not_available};

    #[test]
    fn the_error_of_an_image_object_is_shown() {
        let conditions = |progressing: &str, of_progress: &str, of_image: &str| {
            json!({"status": {"conditions": [
                {"type": "Available", "status": "False", "reason": "x", "message": of_image},
                {"type": "Progressing", "status": progressing, "reason": "y", "message": of_progress}]}})
        };
        for (data, expected) in [
            (json!({}), None),
            (conditions("False", "", ""), None),
            (
                conditions("True", "uploading", "waits for the upload"),
                Some("waits for the upload"),
            ),
            (
                conditions("False", "invalid hash", "not there"),
                Some("invalid hash"),
            ),
        ] {
            assert_eq!(why_not_available(&data).as_deref(), expected, "{data}");
        }
    }

    #[test]
    fn an_image_object_counts_once_it_is_available() {
        let available = json!([{"type": "Progressing", "status": "False"}, {"type": "Available", "status": "True"}]);
        for (data, expected) in [
            (json!({}), None),
            (json!({"status": {"id": "i"}}), None),
            (
                json!({"status": {"id": "i", "conditions": [{"type": "Available", "status": "False"}]}}),
                None,
            ),
            (json!({"status": {"conditions": available.clone()}}), None),
            (
                json!({"status": {"id": "i", "conditions": available}}),
                Some("i".into()),
            ),
        ] {
            assert_eq!(ready_image(&data), expected, "{data}");
        }
    }
}
