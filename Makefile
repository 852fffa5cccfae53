# `make` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export CGO_ENABLED := 0

FUZZTIME ?= 30s
SEED ?= 1
LEDGER ?= redis
FAULTS ?= 5m
FORMS ?= bare tools
# Tests end by themselves. This ends a package that hangs, also on a machine with a load of 10.
TIMEOUT ?= 40m
# .ci/run sets it to -vet=off, because make lint vets the same packages.
VET ?=
# The commands that tests run, and that a minimal system may lack.
NEED := redis-server postgresql python3 curl sqlite3
# The modules of go.work. To lint them one by one takes twice as long.
WORK := . quota/observe quota/open quota/pgstore quota/meter/grpcmeter ingest cmd/ingestor
PKG ?= quota/meter
N ?= 300
# The longest come first, so that the others fill up the processors beside them: they wait for
# servers and processes for most of their time.
LONG := ./cmd/ingestor/internal/testing/chaos ./cmd/ingestor ./quota/open ./quota/redisstore ./ingest/fleet ./ingest/catalog/pgcatalog ./quota/pgstore
# To link a test without tables for a debugger takes two thirds of the time. Traces of a stack stay as they are.
LINK := -ldflags=-s
RACE ?= ./quota ./quota/redisstore ./quota/pgstore/... ./quota/... ./quota/observe/... ./quota/open ./quota/meter/grpcmeter
# What -race leaves out: tests that calculate, or wait for other processes, and promises of the
# stores' suite in which one caller acts. They are slow with -race, and have no race to find.
# make soak leaves nothing out. Names of tests must come before those of subtests.
ALONE := ^Test(Model|Any|NoZone|Windows|HoldIsNever|OthersShare|ProcessesShareSlots|SuiteCatches|EveryBook|BookOverlay|BoundsProperties)
ALONE := $(ALONE)|^Test(StoreWithAJournal|Replay|ServerStops|Debts|LedgersThat|ProcessesInFlight|FileThatLost|FileTakenAway|LockedFile|Prune|ForgottenPool|SpendIsThat)
ALONE := $(ALONE)|^Test(StoreOnCluster|StoreBehindSentinel|NewMaster|Storm|Failover|ScriptsDecide|ARefusalIs|AnIdIsKnown|TheLineToAdd)
ALONE := $(ALONE)|^Test(SentModel|RandomLimits|TrueReports|FalseReports|RandomBodies|RandomRetryAfter)
ALONE := $(ALONE)|/^(all_or_nothing|at_least|honest_retry_after|bounded_lateness|impossible.*|settle.*|time_only_moves_forward)$$
ALONE := $(ALONE)|/^(pages_that_disagree.*|small|bad_input.*|blocks_heal|counter.*|bucket_drains|enormous_units)$$
ALONE := $(ALONE)|/^(book_revisions|default_precision|record.*|spend|names|families|members|keyed|restart|model|model_of_.*|clocks_that_swing)$$
ALONE := $(ALONE)|^Test(KilledProcess|UpstreamIsNeverOver|OneBudgetOf|TheDeadHold|KilledServer|KilledClients|ServerKeeps|ServerEnds)
ALONE := $(ALONE)|^Test(ProcessesTakeTurns|ProcessesLearnALimit|ALineFits|FlowsThatWait)

.PHONY: help demo test test-main test-others test-clients test-race fresh test-browser test-openapi sdks attacks soak chaos acceptance lint fuzz bench bench-redis bench-members bench-sqlite bench-postgres bench-catalog bench-serve bench-proxy bench-lease bench-fair bench-learn bench-hot bench-grow mutants api release release-test ways lines cover

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: ## run the whole program against a simulated upstream; needs no key
	go run ./cmd/ingestor demo

test: ## run all tests with reduced counts; installs the commands that it NEEDs if missing
	.ci/need $(NEED)
	TMPDIR=$$(.ci/scratch) $(MAKE) --no-print-directory test-main test-others

# The halves do not run at once: on two processors that takes as long, and at a load of 12 tests of
# processes find that others were too slow. In the second one, clients and benches wait while -race
# calculates. Without -v, go test would not say that the clients of npm are not tested.
test-main:
	go test $(VET) $(LINK) -p 4 -timeout $(TIMEOUT) -skip '^TestNodeClients$$' $(LONG) work

test-others:
	$(MAKE) --no-print-directory -j 2 --output-sync test-race test-clients

test-clients:
	cd sdktest && go test $(VET) $(LINK) -timeout $(TIMEOUT) ./...
	cd bench && go test $(VET) $(LINK) -timeout $(TIMEOUT) ./...
	log=$$(mktemp) && trap "rm -f $$log" EXIT && \
		{ go test $(VET) $(LINK) -timeout $(TIMEOUT) -v -run '^TestNodeClients$$' ./cmd/ingestor/internal/proxy >$$log 2>&1 || { grep -v '^=== ' $$log; false; }; } && \
		grep -e '^ok' -e SKIPPED $$log

test-race:
	.ci/race $(LINK) -p 3 -timeout $(TIMEOUT) -skip '$(ALONE)' $(RACE)

fresh: ## run demo and test in a new minimal Debian, of FORMS bare (no C compiler, no node) and tools; needs root
	.ci/fresh $(FORMS)

test-browser: ## test the pages of ingestor serve in Debian's chromium; saves pictures in artifacts
	.ci/need chromium
	.ci/axe
	mkdir -p artifacts
	go test $(VET) $(LINK) -tags browser -run TestBrowser -parallel 8 -artifacts -outputdir artifacts ./cmd/ingestor/internal/web

test-openapi: ## lint openapi.json, and compare answers of ingestor serve with it, with redocly and prism from npm
	.ci/openapi
	REDOCLY_TELEMETRY=off node .ci/bin/redocly/bin/cli.js lint --format=json cmd/ingestor/internal/web/openapi.json >.ci/bin/lint.json 2>/dev/null
	grep -q '"warnings": 0' .ci/bin/lint.json || { cat .ci/bin/lint.json; exit 1; }
	go test -tags contract -run 'TestOpenAPI|TestKeyLimits' -v ./cmd/ingestor/internal/web

sdks: ## let public SDKs from npm and for Go call through ingestor proxy, with the built-in price books as they are
	.ci/sdks

attacks: ## attack ingestor serve as strangers may, and print what others notice; takes ten minutes
	HEADROOM_SOAK=1 go test -v -timeout 1h -run 'TestACrowd|TestSearchesOnMany|TestWrongTokensStop|TestOtherSites|TestScrapesAre|TestHeapStays|TestEachRoute' ./cmd/ingestor/internal/web | grep -v '^=== '

soak: ## run the same tests with full counts; takes hours
	.ci/need $(NEED) pgbouncer
	HEADROOM_SOAK=1 go test $(LINK) -count=1 -p 3 -timeout 3h $(LONG) work
	cd sdktest && HEADROOM_SOAK=1 go test -count=1 -timeout 1h -run Figures -v ./...
	HEADROOM_SOAK=1 .ci/race -count=1 -timeout 3h $(RACE)

chaos: ## let a fleet of four daemons suffer faults for FAULTS (5m), by the schedule of SEED (1), with its ledger in LEDGER (redis, or postgres)
	.ci/need redis-server postgresql
	go test ./cmd/ingestor/internal/testing/chaos -count=1 -timeout 30m -run 'TestChaos$$' -v -seed $(SEED) -faults $(FAULTS) -ledger $(LEDGER)

acceptance: ## print what a fleet promises, with full counts; takes half an hour on a quiet machine
	.ci/need redis-server postgresql pgbouncer
	HEADROOM_SOAK=1 go test ./ingest/fleet -count=1 -timeout 30m -run TestTicksOnce -v
	HEADROOM_QUIET=1 HEADROOM_SOAK=1 go test ./cmd/ingestor/internal/testing/chaos -count=1 -timeout 60m -skip 'TestChaos$$' -parallel 8 -v

lint: ## run gofumpt, go vet, staticcheck and others; check that modules are tidy
	.ci/tidy -diff
	GOWORK=off go build -C .ci/tools -o ../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	go vet -tags 'browser contract manual' ./cmd/ingestor/... ./internal/testing/taken
	failed=0; .ci/bin/golangci-lint run $(addsuffix /...,$(addprefix ./,$(WORK))) || failed=1; \
		for module in bench sdktest; do (cd $$module && $(CURDIR)/.ci/bin/golangci-lint run ./...) || failed=1; done; exit $$failed

fuzz: ## run every fuzz target for FUZZTIME (default 30s)
	.ci/fuzz $(FUZZTIME)

bench: ## compare speed and worst case with other limiters, in memory
	cd bench && go run .

bench-redis: ## compare a ledger in Redis with redis_rate and a sorted-set log
	.ci/need redis-server
	cd bench && go run ./redis

bench-members: ## measure a million members of a family in memory, SQLite and Redis
	.ci/need redis-server
	cd bench && go run ./members

bench-sqlite: ## compare a ledger in SQLite with a bare UPDATE
	cd bench && go run ./sqlite

bench-postgres: ## compare a ledger in PostgreSQL with a bare UPDATE
	.ci/need postgresql
	cd bench && go run ./postgres

bench-catalog: ## compare the catalog with bare inserts, and its search with a bare query
	.ci/need postgresql
	cd bench && go run ./catalog

bench-serve: ## compare ingestor serve with a bare handler, over loopback
	go run ./cmd/ingestor/internal/testing/benchserve

bench-proxy: ## measure what ingestor proxy adds to calls, over loopback
	.ci/need python3
	go run ./cmd/ingestor/internal/testing/benchproxy

bench-lease: ## compare leased blocks with the plain store in Redis, with eight processes
	.ci/need redis-server
	cd bench && go run ./lease

bench-fair: ## measure how eight processes share a pool that has too little; takes 30 minutes
	.ci/need redis-server postgresql
	cd bench && go run ./fair

bench-learn: ## compare senders that do not know the limit, on a simulated clock; ARGS=-all runs all 750 cases
	cd bench && go run ./learn $(ARGS)

bench-hot: ## compare leased blocks of one hot key among 100,000 with the plain store; about 6 minutes
	.ci/need redis-server postgresql
	cd bench && go run ./grow -hot 100000 -each 1s

bench-grow: ## measure how cost grows with pools, windows and callers; writes bench/grow and bench/README.md
	.ci/need redis-server postgresql
	cd bench && go run ./grow

mutants: ## break PKG (quota/meter) in N (300) sampled places, and list the breaks that no test notices
	.ci/need $(NEED)
	GOWORK=off go build -C .ci/tools -o ../bin/mutants ./mutants
	.ci/bin/mutants -n $(N) -seed $(SEED) $(addprefix ./,$(PKG))

api: ## report what the API of each module changed since the last tag, or the commit before
	.ci/api

release: ## make all that a release of VERSION (v0.1.0) publishes, in dist; takes ten minutes; needs root for the image
	.ci/release $(VERSION)

release-test: ## install the package in a booted Debian, run the image, and use both; needs root
	.ci/release-test

ways: ## count the functions that one reservation, and one metered request, run through
	GOWORK=off go build -C .ci/tools -o ../bin/ways ./ways
	.ci/bin/ways

lines: ## count the lines of the product, by room
	.ci/lines

cover: ## measure test coverage; writes coverage.out for go tool cover -html
	.ci/need $(NEED)
	go test -coverprofile=coverage.out -coverpkg=work work
	go tool cover -func=coverage.out | tail -1
