# The commands of a newcomer. `make demo` and `make test` do all set-up themselves.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
LOCK   ?= dev
STAMP  := $(VENV)/.installed-$(LOCK)
# Images of Python set it. pytest would rewrite the asserts of every test and plugin in every process again.
unexport PYTHONDONTWRITEBYTECODE
SECURED := $(if $(SECURE),ONCELOG_TEST_SECURE=1)
PYTEST := $(BIN)/python -m pytest --durations=12 --durations-min=5
# Files in the order in which they are named or found: those that take longest come first.
BY_FILE := --dist loadfile --no-loadscope-reorder
# Two targets at a time, the output of each in one piece (make 3 cannot keep it apart).
TWO_AT_A_TIME := $(MAKE) --no-print-directory -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

.PHONY: help
help: ## show this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  \033[1m%-20s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---------------------------------------------------------------------------------------------- set-up

.PHONY: setup
setup: $(STAMP) ## create .venv with everything pinned

$(STAMP): requirements/$(LOCK).lock pyproject.toml hatch_build.py src/oncelog/record/walk.py src/oncelog/record/walk.pxd
	@bash scripts/setup.sh "$(PYTHON)" "$(VENV)" "$(LOCK)"
	@touch $@

.PHONY: java
java: ## check for Java 17 (Spark); install it where root and apt are there
	@bash scripts/java.sh

.PHONY: jdk
jdk: ## check for a JDK and Maven (Kafka's Java clients in the conformance tests); install them where root and apt are there
	@bash scripts/java.sh jdk

# ---------------------------------------------------------------------------------------------- main jobs

.PHONY: demo
demo: setup java ## the main job: payments, Spark, three kills, and a proof
	$(BIN)/oncelog demo $(ARGS)

.PHONY: up
up: setup ## one process with everything on localhost:9092 and :8080
	$(BIN)/oncelog up $(ARGS)

.PHONY: cluster
cluster: setup ## one process per role on this machine, with Postgres and Redis (ARGS=--secure: TLS and logins); make cluster-down ends it
	$(BIN)/oncelog cluster up $(ARGS)

.PHONY: cluster-status
cluster-status: setup ## what runs where in that cluster
	$(BIN)/oncelog cluster status $(ARGS)

.PHONY: cluster-down
cluster-down: setup ## end that cluster; its data stays
	$(BIN)/oncelog cluster down $(ARGS)

.PHONY: kind-up
kind-up: ## a Kubernetes of kind on this machine with oncelog in it: build, load, install, wait, helm test
	@bash scripts/kind.sh up

.PHONY: kind-down
kind-down: ## end it, with its data
	@bash scripts/kind.sh down

.PHONY: test
test: setup java ## what CI runs: every check, and every test suite of one machine but its `make slow` (15 to 20 minutes)
	$(MAKE) --no-print-directory check
	$(MAKE) --no-print-directory chart simulation integration clusters conformance spark

.PHONY: check
check: setup ## the fast half: no sockets beyond loopback
	+$(TWO_AT_A_TIME) types static
	$(PYTEST) -q -n 2 tests/unit tests/property -m "not slow"

.PHONY: static
static: fmt-check lint arch proto-check

# ---------------------------------------------------------------------------------------------- gates

.PHONY: fmt
fmt: setup ## format
	$(BIN)/ruff format -q . && $(BIN)/ruff check -q --fix .

.PHONY: fmt-check
fmt-check: setup
	$(BIN)/ruff format --check -q .

.PHONY: lint
lint: setup ## ruff, yamllint, and hadolint for Dockerfiles
	$(BIN)/ruff check -q .
	$(BIN)/yamllint --strict deploy docker .yamllint
	$(BIN)/hadolint docker/Dockerfile tests/e2e/standin/Dockerfile

.PHONY: types
types: setup ## mypy --strict
	$(BIN)/mypy

.PHONY: arch
arch: setup ## import contracts: pure code stays pure, services meet only over the wire
	$(BIN)/lint-imports --cache-dir .cache/import-linter

.PHONY: proto
proto: setup ## generate src/oncelog/api from proto/
	$(BIN)/python -m grpc_tools.protoc -I proto --python_out=src --pyi_out=src proto/oncelog/api/v1/*.proto

.PHONY: kafka-types
kafka-types: setup ## write the types of Kafka's messages, for mypy and editors, from kio (a test says when)
	$(BIN)/python -m scripts.kafka_messages

.PHONY: proto-check
proto-check: setup
	@out=$$(mktemp -d) && trap 'rm -rf "$$out"' EXIT && \
	$(BIN)/python -m grpc_tools.protoc -I proto --python_out=$$out --pyi_out=$$out proto/oncelog/api/v1/*.proto && \
	diff -r -x __init__.py -x __pycache__ $$out/oncelog/api src/oncelog/api || { echo "src/oncelog/api is not what proto/ generates: run make proto"; exit 1; }

.PHONY: golden
golden: setup ## keep the contracts, stored records and a data folder of the version that is released (docs/upgrades.md)
	@version=$$($(BIN)/python -c 'from importlib.metadata import version; print(version("oncelog"))') && mkdir -p tests/golden/$$version && \
	$(BIN)/python -m grpc_tools.protoc -I proto --descriptor_set_out=tests/golden/$$version/contracts.binpb proto/oncelog/api/v1/*.proto && \
	$(BIN)/python -m tests.golden_data tests/golden/$$version

.PHONY: chart-schema
chart-schema: setup ## write the chart's values.schema.json from the settings classes
	$(BIN)/python -m scripts.chart_schema > deploy/helm/oncelog/values.schema.json.partial && mv deploy/helm/oncelog/values.schema.json.partial deploy/helm/oncelog/values.schema.json

.PHONY: spark-manifests
spark-manifests: setup ## write deploy/spark from the chart
	@bash scripts/helm.sh $(BIN)/pip && bash scripts/spark_manifests.sh deploy/spark

.PHONY: docs-settings
docs-settings: setup ## write docs/settings.md from the settings classes
	$(BIN)/python -m scripts.settings_page > docs/settings.md.partial && mv docs/settings.md.partial docs/settings.md

.PHONY: docs-rules
docs-rules: setup ## write docs/rules.md from docs/rules.toml
	$(BIN)/python -m scripts.rules_page > docs/rules.md.partial && mv docs/rules.md.partial docs/rules.md

# ---------------------------------------------------------------------------------------------- tests

.PHONY: unit
unit: setup ## tables, transcripts, codec bytes
	$(PYTEST) -q -n 2 tests/unit

.PHONY: property
property: setup ## hypothesis: machines against small models
	$(PYTEST) -q -n 2 tests/property -m "not slow"

.PHONY: integration
integration: setup ## contract suites and real roles: sockets, Postgres, files
	$(PYTEST) -q -n 4 --dist loadfile tests/contracts tests/integration $(CLUSTER_TESTS:%=--ignore=%) -m "not robustness and not slow"

.PHONY: chart
chart: setup ## the Helm chart without a cluster: helm lint, render with Helm 3 and 4, validate for Kubernetes 1.31 and 1.36
	@bash scripts/helm.sh $(BIN)/pip
	@bash scripts/promtool.sh
	$(PYTEST) -q -n 2 tests/deploy

# A cluster is a dozen processes, and waits more than it works: three such tests run at a time, with the machine to themselves.
# They take about a second of processor time in four.
CLUSTER_TESTS := tests/integration/processes tests/integration/failover tests/incidents

.PHONY: clusters
clusters: setup ## whole clusters of processes: start, kills, failover, restarts
	$(PYTEST) -q -n 3 $(BY_FILE) tests/integration/failover/test_short_chaos.py $(CLUSTER_TESTS) -m "not slow"

.PHONY: slow
slow: setup java jdk ## what is too long for `make test`, and examples by chance for the property tests
	ONCELOG_TEST_EXPLORE=1 $(PYTEST) -q -n 2 tests/property tests/unit/gateway tests/unit/robustness tests/unit/spark -m "not slow"
	$(PYTEST) -q -m slow tests/property tests/integration tests/conformance tests/spark tests/simulation
	$(MAKE) --no-print-directory fuzz

.PHONY: pages
pages: setup ## the console in a real Chromium (apt-get install chromium, or ONCELOG_TEST_CHROMIUM=…): pages, keyboard, accessibility
	$(BIN)/uv pip install -q --require-hashes -r requirements/pages.lock
	$(PYTEST) -q tests/pages

.PHONY: pictures
pictures: setup ## the README's pictures of the console, of real clients at work for nine minutes; Chromium as for `make pages`
	$(BIN)/uv pip install -q --require-hashes -r requirements/pages.lock
	$(BIN)/python -m tests.pages.pictures

# Tools that share no version with oncelog have an environment each.
.cache/tools/%: requirements/%.lock | setup
	@$(BIN)/uv venv -q --clear --python $(BIN)/python $@ && $(BIN)/uv pip install -q --python $@/bin/python --require-hashes -r $< && touch $@

.PHONY: audit
audit: .cache/tools/audit ## known vulnerabilities of what requirements/ pins, by PyPI; ARGS="-s osv", ARGS="--ignore-vuln ID"
	@bash scripts/audit.sh .cache/tools/audit $(ARGS)

.PHONY: sbom
sbom: .cache/tools/audit ## list what `pip install oncelog` brings, as CycloneDX: artifacts/oncelog.cdx.json
	@bash scripts/sbom.sh .cache/tools/audit $(BIN)/uv artifacts/oncelog.cdx.json

.PHONY: tls-scan
tls-scan: .cache/tools/tls-scan ## TLS of listener, gateway and between processes against Mozilla's profiles intermediate and, with TLS 1.3 alone, modern (sslyze)
	@bash scripts/tls_scan.sh $(BIN) .cache/tools/tls-scan

.PHONY: fuzz
fuzz: setup ## bytes of chance into requests, record batches, private calls, logins and tokens; SECONDS=60 each, TARGET=requests
	@$(BIN)/uv pip install -q --require-hashes -r requirements/fuzz.lock
	@nice $(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60) $(TARGET)

.PHONY: mutants
mutants: setup ## small changes of a pure core that no test notices; ROOM=coordinator MODULES="end_txn fencing"
	@$(BIN)/uv pip install -q --require-hashes -r requirements/mutants.lock
	@$(BIN)/python -m scripts.mutants $(or $(ROOM),coordinator) $(MODULES) $(ARGS)

.PHONY: trace
trace: setup ## the trace of one transaction, drawn in the terminal; ARGS="--abort", ARGS=--kill-coordinator
	@$(BIN)/python -m oncelog_server.tracing $(ARGS)

.PHONY: failover
failover: setup ## twenty kills of each kind of process; prints how long an application waited; SECURE=1: with mTLS between processes
	$(SECURED) ONCELOG_FAILOVER_FULL=1 $(PYTEST) -q -s tests/integration/failover

.PHONY: damage
damage: setup ## some hundred bits, cuts and removals in every kind of file; the integration tests have a part of them
	ONCELOG_TEST_ALL_DAMAGE=1 $(PYTEST) -q -s tests/integration/storage/test_damage.py tests/integration/storage/test_damage_of_segments.py tests/integration/storage/test_damage_of_replicas.py

# Clients wait more than they work.
.PHONY: conformance
conformance: setup jdk ## confluent-kafka, aiokafka, kafka-python, Kafka's Java clients and tools against `oncelog up`
	$(PYTEST) -q -n 6 --dist loadfile tests/conformance -m "not slow" --junitxml=artifacts/conformance-oncelog.xml

.PHONY: conformance-java
conformance-java: setup jdk ## Kafka Streams and Kafka Connect through many kills; ROUNDS=10 of each
	ONCELOG_TEST_JAVA_ROUNDS=$(or $(ROUNDS),10) $(PYTEST) -q tests/conformance/test_streams_exactly_once.py tests/conformance/test_connect_exactly_once.py

.PHONY: authorizer-conformance
authorizer-conformance: setup jdk ## what ACLs allow, request by request, beside Apache Kafka's broker and its StandardAuthorizer
	$(PYTEST) -q tests/conformance/test_authorizer_with_kafka.py

.PHONY: conformance-cluster
conformance-cluster: setup jdk ## the same tests against a cluster of processes; SECURE=1: with mTLS between processes
	$(SECURED) ONCELOG_TEST_TARGET=cluster $(PYTEST) -q -n 1 --dist loadfile tests/conformance

.PHONY: conformance-kafka
conformance-kafka: setup jdk ## the same tests against Apache Kafka 4.4 too, and the table of both in docs/compatibility.md; NODES=3
	$(PYTEST) -q -n 2 --dist loadfile tests/conformance -m "not slow" --junitxml=artifacts/conformance-oncelog.xml || true
	ONCELOG_TEST_TARGET=kafka ONCELOG_TEST_KAFKA_NODES=$(or $(NODES),1) $(PYTEST) -q -n 2 --dist loadfile tests/conformance -m "not slow" \
		--ignore tests/conformance/test_java_logs_in.py --ignore tests/conformance/test_python_clients_log_in.py \
		--junitxml=artifacts/conformance-kafka.xml || true
	$(BIN)/python -m scripts.conformance_table artifacts/conformance-oncelog.xml artifacts/conformance-kafka.xml

LOGGED_IN := $(patsubst %,tests/conformance/test_%.py,transactions_with_clients records_with_clients \
	admin_with_clients groups_with_clients compaction_with_clients consumer_protocol_with_clients group_transactions \
	group_migration_with_clients crashes_with_clients delayed_end_txn requests_left_behind_by_clients record_errors \
	robustness_clients java_admin streams_exactly_once connect_exactly_once)
.PHONY: conformance-logins
conformance-logins: setup jdk ## the same clients, Kafka's tools, Streams and Connect, all logged in: TLS, SCRAM, ACLs; 20 minutes
	ONCELOG_TEST_LOGIN=1 ONCELOG_TEST_TARGET=cluster $(PYTEST) -q $(LOGGED_IN)

.PHONY: spark
spark: setup java ## PySpark source and sink, and the crash matrix
	$(PYTEST) -q -n 2 --dist loadfile tests/spark -m "not slow"

.PHONY: spark-cluster
spark-cluster: setup java ## the same against a cluster of processes
	ONCELOG_TEST_TARGET=cluster $(PYTEST) -q tests/spark

.PHONY: sim
sim: setup ## the cluster on virtual time: 200 seeds, or one again: make sim SEED=8114 SCENARIO=storm
	$(BIN)/python -m oncelog_robustness.simulator $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),200)) $(addprefix --scenario ,$(SCENARIO)) $(ARGS)

.PHONY: sim-nightly
sim-nightly: setup ## 2,000 seeds, every planted bug, determinism over 50 seeds
	ONCELOG_SIMULATION_FULL=1 $(PYTEST) -q -s tests/simulation

.PHONY: simulation
simulation: setup ## the simulator's own tests, a few planted bugs, determinism, 10 seeds
	$(PYTEST) -q -n 2 --dist worksteal tests/simulation -m "not slow"

.PHONY: robustness
robustness: setup ## every workload, evidence and a short chaos, against a running log and a real cluster
	$(PYTEST) -q tests/integration/robustness tests/integration/failover/test_short_chaos.py

.PHONY: lying
lying: setup ## chaos against a broker that lies: ten bugs named, and an honest one acquitted; 10 minutes; TARGET=kafka: before Apache Kafka
	ONCELOG_TEST_TARGET=$(or $(TARGET),embedded) $(PYTEST) -q -s tests/integration/robustness/test_lying_proxy.py

.PHONY: verdicts
verdicts: setup jdk ## oncelog verify on Kafka and on oncelog, side by side in docs/reports; TARGETS="kafka-1 kafka-3 oncelog-up oncelog-cluster" FOR=60m SEED=7 EVERY=30s
	@$(BIN)/python -m scripts.verdicts --targets "$(TARGETS)" --for "$(or $(FOR),60m)" --every "$(or $(EVERY),30s)" --seed "$(or $(SEED),7)"

.PHONY: chaos
chaos: setup ## ten minutes of kills, freezes and cuts on real processes, judged; ARGS="--minutes 2 --seed 7"
	$(BIN)/python -m oncelog_robustness.chaos $(ARGS)

.PHONY: chaos-kind
chaos-kind: setup ## the same on the pods of the current kubectl context and namespace; ARGS="--release oncelog --minutes 2"
	$(BIN)/python -m oncelog_robustness.chaos --kubernetes $(ARGS)

.PHONY: e2e
e2e: setup ## the whole system as containers: clients, kills, upgrade, machines cut off, chaos; MINUTES=10, SHORT=1, CLUSTER=current
	CLUSTER="$(CLUSTER)" ONCELOG_E2E_MINUTES="$(MINUTES)" $(if $(SHORT),ONCELOG_E2E_SHORT=1) $(PYTEST) -q -s tests/e2e/test_system.py tests/e2e/test_chaos.py

.PHONY: bench
bench: setup java ## measure; writes bench/results/ and docs/performance.md
	$(BIN)/python -m bench $(ARGS)

.PHONY: profile
profile: setup ## where an embedded log's time goes, by role and layer, and allocations; ROW=commit, commit-10, produce, read
	@$(BIN)/uv pip install -q --require-hashes -r requirements/profile.lock
	@$(BIN)/python -m bench.profile $(or $(ROW),commit) $(ARGS)

# ---------------------------------------------------------------------------------------------- containers

.PHONY: images
images: ## build every image with docker or podman; TARGETS="storage tools", BASE_IMAGE=, ENGINE=, SAVE=folder (docs/containers.md)
	@TARGETS="$(TARGETS)" BASE_IMAGE="$(BASE_IMAGE)" ENGINE="$(ENGINE)" SAVE="$(SAVE)" bash scripts/images.sh

.PHONY: compose-env
compose-env: ## write docker/.env with passwords of chance, for docker/compose.yaml
	@bash scripts/compose_env.sh

# ---------------------------------------------------------------------------------------------- housekeeping

COMPILE := $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
	--custom-compile-command "make lock"

# A process of one role imports none of these: its image is 30 MB smaller without them.
ONLY_OF_THE_COMMAND := markdown-it-py mdurl pygments rich shellingham typer
# Nor do the commands that look at a cluster any of these, or the client of chaos: 50 MB of oncelog/tools.
ONLY_OF_SERVERS := alembic fastapi mako opentelemetry-api opentelemetry-exporter-otlp-common opentelemetry-exporter-otlp-proto-common \
	opentelemetry-exporter-otlp-proto-grpc opentelemetry-proto opentelemetry-sdk opentelemetry-semantic-conventions psycopg psycopg-binary redis sqlalchemy starlette uvicorn

.PHONY: lock
lock: ## pin dependencies again (names, versions and hashes; no addresses)
	@for lock in dev:server,spark,chaos,mcp,dev base: roles:roles tools:roles,chaos server:server spark:spark; do \
	  name=$${lock%%:*} && also=$$([ $$name = dev ] || echo "--constraint requirements/dev.lock") && \
	  extras=$$(echo "$${lock#*:}" | tr ',' '\n' | sed '/^$$/d; s/^/--extra /' | tr '\n' ' ') && \
	  [ $$name = roles ] && also="$$also $(ONLY_OF_THE_COMMAND:%=--no-emit-package %)"; \
	  [ $$name = tools ] && also="$$also $(ONLY_OF_SERVERS:%=--no-emit-package %)"; \
	  $(COMPILE) $$also $$extras pyproject.toml -o requirements/$$name.lock || exit 1; \
	done
	@for group in audit images tls-scan; do $(COMPILE) --group $$group -o requirements/$$group.lock || exit 1; done
	@for group in fuzz mutants pages profile; do $(COMPILE) --constraint requirements/dev.lock --group $$group -o requirements/$$group.lock || exit 1; done

.PHONY: clean
clean: ## remove what can be made again
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis artifacts
