# Everything runs on this machine: no container engine, no cluster. `make` alone lists the goals.

CARGO ?= cargo
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/capo-rs
PROGRAMS := etcd kube-apiserver kubectl cluster-api capo clusterctl kstatus kube-state-metrics glua prometheus haproxy grafana
CARGO_DENY_VERSION := 0.20.2
CARGO_DENY := $(CACHE)/cargo-deny-$(CARGO_DENY_VERSION)/bin/cargo-deny
CARGO_CYCLONEDX_VERSION := 0.5.9
CARGO_CYCLONEDX := $(CACHE)/cargo-cyclonedx-$(CARGO_CYCLONEDX_VERSION)/bin/cargo-cyclonedx
MDBOOK_VERSION := 0.5.4
MDBOOK := $(CACHE)/mdbook-$(MDBOOK_VERSION)/bin/mdbook
CARGO_MUTANTS_VERSION := 27.1.0
CARGO_MUTANTS := $(CACHE)/cargo-mutants-$(CARGO_MUTANTS_VERSION)/bin/cargo-mutants

# The plain rolling update through a real HAProxy, one whose second new member stays PENDING, and a control: without the gate a
# rollout loses requests.
SHORT_ROLLOUTS := scenarios::plain::three_machines_behind_haproxy_are_replaced scenarios::held::a_pending_member_holds_the_rollout \
	scenarios::controls::members_that_are_removed_late_lose_requests

# CAPO makes, capo-rs takes over and gives back one of each: with a load balancer, with a bastion, without a load balancer.
SHORT_TAKEOVERS := plain bastion no_load_balancer

# Each compiles with its own dependencies alone, not only with what the others bring along.
CRATES := capo-core capo-openstack capo-gate capo-api capo-rs fake-cloud test-support
# The test binaries that start none of PROGRAMS (tests/README.md).
RUST_ONLY := --test documents --test statuses --test wire --test round_trip --test fuzz

ARCHITECTURE := $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,amd64)

.DEFAULT_GOAL := help
.PHONY: help demo release check lint-and-test test workspace-tests rollouts-short takeovers-short quickstart-short alerts deep mutants rollout oldest quickstart takeover test-openstack bench edit-loop lint crates deny crds documents figures docs image-check programs

help: ## List the goals
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Show a rollout that waits for its load balancer (KEEP=1 leaves all running, KILLS=10 kills the manager)
	@$(MAKE) --no-print-directory programs PROGRAMS="etcd kube-apiserver cluster-api"
	@echo "Building capo-rs, the fake cloud and the demo: some minutes the first time, nothing later"
	@$(CARGO) build $$([ -t 2 ] || echo --quiet) --locked --workspace --bins
	@$(CARGO) build $$([ -t 2 ] || echo --quiet) --locked --example demo
	@KEEP=$(KEEP) KILLS=$(KILLS) SEED=$(SEED) $(CARGO) run --quiet --locked --example demo

# The first time, cargo-deny is built on the processors that the lints and tests leave idle.
check: ## Format, clippy, dependencies with advisories, every test that needs Rust only
	@$(MAKE) --no-print-directory --jobs=2 lint-and-test $(CARGO_DENY)
	@$(MAKE) --no-print-directory deny

lint-and-test: lint
	$(CARGO) test --locked --workspace --no-fail-fast --lib $(RUST_ONLY)

test: programs ## Unit tests, the wire, real etcd and kube-apiserver, the fake cloud, short rollouts and takeovers
	@$(MAKE) --no-print-directory --keep-going --jobs=2 workspace-tests quickstart-short
	$(CARGO) test --quiet --locked --no-run --test rollout --test takeover
	@echo "Rollouts, takeovers and alerts mostly wait, so they run side by side. Each shows its output at its end, within seven minutes."
	@$(MAKE) --no-print-directory --keep-going --jobs=3 --output-sync=target rollouts-short takeovers-short alerts

workspace-tests:
	$(CARGO) test --locked --workspace --no-fail-fast -- --test-threads=8 --skip=metrics::rollout::a_real --skip=operator::quickstart

rollouts-short:
	$(CARGO) test --locked --test rollout -- --test-threads=3 --exact $(SHORT_ROLLOUTS)

takeovers-short:
	CAPO_RS_TAKEOVER="$(SHORT_TAKEOVERS)" $(CARGO) test --locked --test takeover -- --exact $(SHORT_TAKEOVERS)

# It waits for seven minutes, so it begins together with the tests of the workspace instead of being the last of them.
quickstart-short:
	$(CARGO) test --locked --test suite operator::quickstart::

alerts: programs ## A real Prometheus, every board and alert over a rollout in trouble
	$(CARGO) test --locked --test suite metrics::rollout::a_real

deep: ## Figures, fleets and a jobboard at full length, a million conversions, 100,000 histories, interleavings of a small model
	CAPO_RS_OUTAGE_SECONDS=120 $(CARGO) test --locked --test suite figures::
	CAPO_RS_SHIPPED_LEASE=1 $(CARGO) test --locked --test suite whole::restarts::a_frozen_leader
	CAPO_RS_DEEP=1 $(CARGO) test --locked --test suite -- --test-threads=3 --nocapture load_balancers_whose_calls_wait an_operation_that_another_worker_resumes
	PROPTEST_CASES=1000000 $(CARGO) test --locked --release --test round_trip
	PROPTEST_CASES=100000 $(CARGO) test --locked --release -p capo-rs --lib webhooks::
	FUZZ_SECONDS=20 $(CARGO) test --locked --test fuzz
	CAPO_RS_DEEP=1 PROPTEST_CASES=100000 $(CARGO) test --locked --release -p capo-gate --lib -- --nocapture

mutants: $(CARGO_MUTANTS) ## Break the gate in every small way: a test must notice (docs/deep.md)
	$(CARGO_MUTANTS) mutants --package capo-gate --output target

$(CARGO_MUTANTS):
	$(CARGO) install --quiet --locked cargo-mutants --version $(CARGO_MUTANTS_VERSION) --root $(CACHE)/cargo-mutants-$(CARGO_MUTANTS_VERSION)

rollout: programs ## Real KubeadmControlPlane rollouts through everything that Octavia does
	@rm -rf target/tmp/rollout/results
	$(CARGO) build --quiet --locked --workspace --bins
	$(CARGO) test --locked --test rollout -- scenarios::cost
	$(CARGO) test --locked --test rollout -- --test-threads=3 --skip=scenarios::cost scenarios::
	@CAPO_RS_WRITE_ROLLOUTS=1 $(CARGO) test --quiet --locked --test documents rollouts::
	@cat docs/rollouts.md

oldest: ## A rollout with the oldest supported Cluster API
	@$(MAKE) --no-print-directory programs PROGRAMS="etcd kube-apiserver cluster-api-oldest"
	$(CARGO) build --quiet --locked --workspace --bins
	CAPO_RS_OLDEST_CLUSTER_API=1 $(CARGO) test --locked --test rollout -- --exact scenarios::plain::three_machines_are_replaced

quickstart: programs ## The commands of README.md and docs/quickstart.md, and how long the first cluster takes
	CAPO_RS_MEASURE=1 $(CARGO) test --locked --test suite operator::quickstart::

takeover: programs ## Installations of the real CAPO, taken over and given back without a call that changes anything
	$(CARGO) build --quiet --locked --workspace --bins
	$(CARGO) test --locked --test takeover

test-openstack: programs ## The same client and manager against a real OpenStack (needs root and Debian; TESTS= for some)
	tests/openstack/run.sh $(TESTS)

bench: ## Measure what docs/figures.md claims, with the program as it is released
	program=$$(deploy/build.sh $(ARCHITECTURE)) && \
	  CAPO_RS_BINARY=$$(realpath "$${program#*=}") $(CARGO) bench --locked --workspace --no-fail-fast

edit-loop: ## How long the gate's tests after a change of one line take, and `make check` with everything built
	.ci/edit-loop

lint: ## Format and clippy, with warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings
	$(CARGO) clippy --locked --package capo-rs --test rollout --test takeover --test openstack -- --deny warnings

crates: ## Each crate by itself, and the documents of its items
	@for crate in $(CRATES); do echo "$(CARGO) check --package $$crate"; $(CARGO) check --quiet --locked --package $$crate || exit 1; done
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --quiet --locked --workspace --no-deps --document-private-items

deny: $(CARGO_DENY) ## Licences, banned crates, sources and advisories of the dependencies (.ci/advisories)
	$(CARGO_DENY) --locked check bans licenses sources
	@.ci/advisories $(CARGO_DENY)

# Without optimisation it is built in a third of the time, and needs seconds for this lock file.
$(CARGO_DENY):
	CARGO_PROFILE_DEV_DEBUG=false nice $(CARGO) install --quiet --locked --debug cargo-deny --version $(CARGO_DENY_VERSION) --root $(CACHE)/cargo-deny-$(CARGO_DENY_VERSION)

crds: ## Write the custom resource definitions of the types into crds/
	CAPO_RS_WRITE_CRDS=1 $(CARGO) test --quiet --locked --test documents crds::committed

documents: ## Write the pages and boards that are made from the code (docs/reasons.md, docs/metrics.md, docs/flags.md, docs/fields.md, dashboards/)
	CAPO_RS_WRITE_DOCS=1 $(CARGO) test --quiet --locked --test documents -- the_page the_committed_boards

figures: ## Write docs/figures.md from what bench, edit-loop, image-check, quickstart and docs measured before
	@CAPO_RS_WRITE_FIGURES=1 $(CARGO) test --quiet --locked --test documents figures::
	@.ci/figures

docs: $(MDBOOK) ## Build the documents as one site into target/site, and check every link in it
	@rm -rf target/site
	.ci/documents $(MDBOOK)
	@.ci/links target/site

# Without optimisation it is built in a third of the time, and needs a second for these pages.
$(MDBOOK):
	$(CARGO) install --quiet --locked --debug mdbook --version $(MDBOOK_VERSION) --no-default-features --features search --root $(CACHE)/mdbook-$(MDBOOK_VERSION)

# What stands in the way of a release is said before the tool for the SBOM is built.
RELEASE := VERSION=$(VERSION) IMAGE=$(IMAGE) ARCHITECTURES="$(ARCHITECTURES)" SIGNING_KEY=$(SIGNING_KEY) CARGO_CYCLONEDX=$(CARGO_CYCLONEDX) deploy/release.sh
release: ## Write the clusterctl folder, the images and the SBOM of VERSION=v1.2.3 into target/releases
	@$(RELEASE) --check
	@$(MAKE) --no-print-directory $(CARGO_CYCLONEDX)
	@$(RELEASE)

$(CARGO_CYCLONEDX):
	$(CARGO) install --quiet --locked --debug cargo-cyclonedx --version $(CARGO_CYCLONEDX_VERSION) --root $(CACHE)/cargo-cyclonedx-$(CARGO_CYCLONEDX_VERSION)

image-check: ## Assemble the image's content and run it as its user (needs root)
	deploy/image-check.sh

programs:
	@[ -n "$$KUBEBUILDER_ASSETS" ] || ls -d $(CACHE)/kubernetes-* $(CACHE)/cluster-api-* >/dev/null 2>&1 || echo \
	  "Building kube-apiserver, Cluster API's managers and others from Go modules into $(CACHE): once, about 15 minutes on two cores"
	@tests/support/build.sh $(PROGRAMS)
