//! capo-rs: a Cluster API infrastructure provider for OpenStack.
//!
//! The most important requirement is that a control-plane rollout never outruns the load balancer: no new control-plane
//! machine counts as provisioned before Octavia has provisioned its pool member on every API port, and no old machine
//! is removed while its removal would leave the API server without a serving member.
//!
//! | module | purpose |
//! |---|---|
//! | [`tracker`] | one worker per load balancer around the decisions of `capo-gate` |
//! | [`reconcile`] | what every controller is built from: pass runner, errors of steps, caches, watches |
//! | [`work_queue`], [`subject`] | the objects that need a pass; the object that a task works for |
//! | [`controllers`] | making OpenStack match the objects |
//! | [`status`] | explanations of reasons, transitions between findings, the roll-up of all objects |
//! | [`metrics`] | the one catalogue of metrics |
//! | [`webhooks`] | admission and conversion |
//! | [`storage_migration`] | rewriting stored objects in the storage version |
//! | [`kubernetes`] | the Kubernetes client and its budget, leader lease, events, patches, conditions |
//! | [`http`] | the one listener, its TLS and certificates |
//! | [`manager`] | settings, probes, start and stop |
//! | [`cli`] | subcommands |

pub mod cli;
pub mod controllers;
pub mod http;
pub mod kubernetes;
pub mod manager;
pub mod metrics;
pub mod reconcile;
pub mod status;
pub mod storage_migration;
pub mod subject;
pub mod tracker;
pub mod webhooks;
pub mod work_queue;
