//! Schemas of Kubernetes' own types, with the bounds that their Rust types do not have.

use schemars::{Schema, SchemaGenerator, json_schema};

use super::map_by_keys;

/// Conditions in the form of Kubernetes.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    let mut list = json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "description": "One thing that is true of the object or not.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "description": "What it is about.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
                },
                "status": {
                    "description": "True, False or Unknown.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"]
                },
                "reason": {
                    "description": "Why, in one word.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
                },
                "message": {
                    "description": "Why, for people.",
                    "type": "string",
                    "maxLength": 32768
                },
                "lastTransitionTime": {
                    "description": "When status last changed.",
                    "type": "string",
                    "format": "date-time"
                },
                "observedGeneration": {
                    "description": "Generation of the object the condition was set for.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0
                }
            }
        }
    });
    map_by_keys(&mut list, &["type"]);
    list
}

/// Conditions in the form of Kubernetes, or in that of Cluster API v1beta1 which CAPO up to 0.14 stores.
pub(crate) fn conditions_of_either_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "description": "One thing that is true of the object or not.",
            "required": ["lastTransitionTime", "status", "type"],
            "properties": {
                "type": {
                    "description": "What it is about.",
                    "type": "string",
                    "maxLength": 316
                },
                "status": {
                    "description": "True, False or Unknown.",
                    "type": "string"
                },
                "severity": {
                    "description": "How grave it is when False. Not set any more.",
                    "type": "string",
                    "maxLength": 32
                },
                "reason": {
                    "description": "Why, in one word.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024
                },
                "message": {
                    "description": "Why, for people.",
                    "type": "string",
                    "maxLength": 32768
                },
                "lastTransitionTime": {
                    "description": "When status last changed.",
                    "type": "string",
                    "format": "date-time"
                },
                "observedGeneration": {
                    "description": "Generation of the object the condition was set for.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0
                }
            }
        }
    })
}

/// Amounts of resources by name.
pub(crate) fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$"
        }
    })
}

/// A choice of objects by their labels.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "description": "Labels that must have these values.",
                "type": "object",
                "additionalProperties": {"type": "string"}
            },
            "matchExpressions": {
                "description": "Further requirements on labels. All of them must hold.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "description": "A requirement on one label.",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"description": "Name of the label.", "type": "string"},
                        "operator": {"description": "In, NotIn, Exists or DoesNotExist.", "type": "string"},
                        "values": {
                            "description": "Values for In and NotIn.",
                            "type": "array",
                            "x-kubernetes-list-type": "atomic",
                            "items": {"type": "string"}
                        }
                    }
                }
            }
        }
    })
}
