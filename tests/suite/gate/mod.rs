//! The gate in depth: releases, evidence, joining members, changes of the mode, bad input. The controllers run against
//! a real kube-apiserver, Cluster API is a script, OpenStack the fake on loopback.

pub(crate) mod another_project;
mod api_server;
mod bad_input;
mod bad_spec;
mod claims;
mod control_plane;
mod cost;
mod endpoints;
mod evidence;
mod fallback;
mod fleet;
mod fleet_releases;
mod jobboard;
mod joining;
mod lookup;
mod modes;
mod operator;
mod pre_drain;
mod release;
mod release_hooks;
pub(crate) mod writing;
