package main

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
)

// TestServeEnvoy asks the rate limit service of a server, with its certificate and token.
func TestServeEnvoy(t *testing.T) {
	f := newFolder(t, 1000, "")
	known := f.certificate()
	f.write("costs.yaml", `
extends: builtin
revision: 3
upstreams: {youtube: {pools: {units: {quota: 1000, headroom: 5}}}}
descriptors: [{domain: edge, entries: destination_cluster=youtube, pool: youtube/units}]
`)
	const token = "a-token-of-envoy-0123456789-0123456789"
	s := f.serve("INGESTOR_TLS_CERT="+f.path("cert.pem"), "INGESTOR_TLS_KEY="+f.path("key.pem"), "INGESTOR_COSTS="+f.path("costs.yaml"),
		"INGESTOR_TOKEN="+token, "INGESTOR_ENVOY_LISTEN=127.0.0.1:0")
	_, address, found := strings.Cut(s.said.String(), "rate limit service on ")
	if !found {
		t.Fatalf("it says %s", s.said)
	}
	address, _, _ = strings.Cut(address, "\n")
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: known, MinVersion: tls.VersionTLS12})))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	req := &rls.RateLimitRequest{Domain: "edge", HitsAddend: 7, Descriptors: []*descriptors.RateLimitDescriptor{
		{Entries: []*descriptors.RateLimitDescriptor_Entry{{Key: "destination_cluster", Value: "youtube"}}},
	}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := rls.NewRateLimitServiceClient(conn)
	if _, err := client.ShouldRateLimit(ctx, req); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without the token: %v", err)
	}
	answer, err := client.ShouldRateLimit(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token), req)
	if err != nil || answer.GetOverallCode() != rls.RateLimitResponse_OK || answer.GetStatuses()[0].GetLimitRemaining() != 988 ||
		answer.GetStatuses()[0].GetCurrentLimit().GetName() != "youtube/units" {
		t.Errorf("answered %v %v", answer, err)
	}
	s.stop()
	if r := f.run("serve", "--envoy-listen", ":8081"); r.code != console.ExitConfig || !strings.Contains(r.stderr, "plain gRPC that other machines can reach") {
		t.Errorf("plain gRPC for others: %d\n%s", r.code, r.stderr)
	}
}
