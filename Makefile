# Everything runs on this machine: no container engine, no cluster. `make` alone lists the goals.

CARGO ?= cargo
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/capo-rs
CARGO_DENY_VERSION := 0.20.2
CARGO_DENY := $(CACHE)/cargo-deny-$(CARGO_DENY_VERSION)/bin/cargo-deny

.DEFAULT_GOAL := help
.PHONY: help demo test deep test-openstack bench lint deny crds image-check programs

help: ## List the goals
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: programs ## Show a rollout that waits for its load balancer (KEEP=1 leaves all running)
	@$(CARGO) build --quiet --locked --workspace --bins
	@KEEP=$(KEEP) $(CARGO) run --quiet --locked --example demo

test: programs ## Unit tests, the wire, real etcd and kube-apiserver, the fake cloud
	$(CARGO) test --locked --workspace --no-fail-fast

deep: ## Figures at their full length: outages of two minutes, a million conversions each way
	CAPO_RS_OUTAGE_SECONDS=120 $(CARGO) test --locked --test suite figures::
	PROPTEST_CASES=1000000 $(CARGO) test --locked --test suite webhooks::round_trip
	PROPTEST_CASES=100000 $(CARGO) test --locked --lib webhooks::

test-openstack: programs ## The same client and manager against a real OpenStack (needs root and Debian)
	tests/contract/run.sh

bench: ## Measure what the figures of the README claim
	$(CARGO) bench --locked --workspace

lint: ## Format, clippy, and what dependencies bring in
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings
	@$(MAKE) --no-print-directory deny

deny: $(CARGO_DENY) ## Licences, banned crates and sources of the dependencies
	$(CARGO_DENY) --locked check bans licenses sources

$(CARGO_DENY):
	$(CARGO) install --quiet --locked cargo-deny --version $(CARGO_DENY_VERSION) --root $(CACHE)/cargo-deny-$(CARGO_DENY_VERSION)

crds: ## Write the custom resource definitions of the types into crds/
	CAPO_RS_WRITE_CRDS=1 $(CARGO) test --quiet --locked --test suite crds::committed

image-check: ## Assemble the image's content and run it as its user (needs root)
	deploy/image-check.sh

programs:
	@tests/env/build.sh etcd kube-apiserver
