# `make` prints what there is to do here.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export CGO_ENABLED := 0

FUZZTIME ?= 30s
RACE ?= ./quota/...
# Tests in one goroutine, which take long with -race and have nothing to race with.
ALONE := ^TestStore/^(model|small|spend)$$|^TestModel|^TestNoZone

.PHONY: help demo test test-browser soak lint fuzz bench bench-redis bench-sqlite bench-catalog bench-serve cover

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: ## the whole program against a simulated upstream; needs no key
	go run ./cmd/ingestor demo

test: ## every kind of test, with reduced counts; installs redis-server and python3 if they are missing
	.ci/need redis-server python3
	go test ./...
	cd bench && go test ./...
	.ci/race -skip '$(ALONE)' $(RACE)

test-browser: ## the pages of ingestor serve in Debian's chromium; leaves pictures of them in artifacts
	.ci/need chromium
	mkdir -p artifacts
	go test -tags browser -run TestBrowser -parallel 8 -artifacts -outputdir artifacts ./internal/web

soak: ## the same tests with full counts: allow an hour
	.ci/need redis-server python3
	HEADROOM_SOAK=1 go test -count=1 -timeout 3h ./...
	HEADROOM_SOAK=1 .ci/race -count=1 -timeout 3h $(RACE)

lint: ## gofumpt, go vet, staticcheck and a few more; tidy modules
	go mod tidy -diff
	.ci/tidy-bench -diff
	go build -C .ci/tools -o ../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	.ci/bin/golangci-lint run ./...
	cd bench && ../.ci/bin/golangci-lint run ./...

fuzz: ## every fuzz target for FUZZTIME (30s)
	.ci/fuzz $(FUZZTIME)

bench: ## speed, and what is admitted at worst, beside other limiters
	cd bench && go run .

bench-redis: ## a ledger in Redis beside redis_rate and a sorted-set log, on one server
	.ci/need redis-server
	cd bench && go run ./redis

bench-sqlite: ## a ledger in SQLite beside a bare UPDATE with the same settings
	cd bench && go run ./sqlite

bench-catalog: ## the catalog beside a bare bulk insert, and its search beside a bare query
	cd bench && go run ./catalog

bench-serve: ## what ingestor serve answers beside a bare handler, over loopback
	cd bench && go run ./serve

cover: ## coverage by package, and coverage.out for go tool cover -html
	.ci/need redis-server python3
	go test -coverprofile=coverage.out -coverpkg=./... ./...
	go tool cover -func=coverage.out | tail -1
