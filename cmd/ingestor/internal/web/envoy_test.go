package web_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	entries "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/quota/book"
)

// fromEnvoy has the descriptors that Envoy documents as examples, in
// envoy/extensions/common/ratelimit/v3/ratelimit.proto.
const fromEnvoy = `
revision: 1
upstreams:
  shop: {pools: {units: {quota: 10, windows: [{per: day}]}}}
families:
  visitor: {quota: 3, windows: [{per: 1m}], keys: {10.0.0.9: 5}}
  client: {quota: 100, windows: [{per: 1h}]}
descriptors:
  - {domain: envoy, entries: [authenticated=false, remote_address], family: visitor}
  - {domain: envoy, entries: [authenticated=false, path=/foo/bar], pool: shop/units}
  - {domain: envoy, entries: [authenticated=false, path=/foo/bar, remote_address], family: visitor}
  - {domain: envoy, entries: [authenticated=true, client_id], family: client}
  - {domain: envoy, entries: [authenticated=true, client_id, path=/foo/bar], family: client}
`

// newEnvoy returns a rig with a server for Envoy, and its address.
func newEnvoy(t *testing.T) (*rig, string) {
	t.Helper()
	return newEnvoyOf(t, nil)
}

// newEnvoyOf is newEnvoy with options.
func newEnvoyOf(t *testing.T, o *web.Options) (*rig, string) {
	t.Helper()
	r := newDecider(t, o)
	r.priced()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	r.Must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.server.ServeEnvoy(ctx, context.Background(), l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r, l.Addr().String()
}

// priced gives the ledger the price book with the descriptors.
func (r *rig) priced() {
	r.Helper()
	costs, err := book.Parse("test", []byte(fromEnvoy), nil)
	r.Must(err)
	r.Must(r.Ledger.SetBook(costs))
}

// dialEnvoy connects to a server for Envoy.
func (r *rig) dialEnvoy(address string) *grpc.ClientConn {
	r.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	r.Must(err)
	r.Cleanup(func() { _ = conn.Close() })
	return conn
}

func with(token string) context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+token)
}

// descriptor parses a descriptor that is written as in Envoy's documentation.
func descriptor(text string) *entries.RateLimitDescriptor {
	d := &entries.RateLimitDescriptor{}
	for part := range strings.SplitSeq(text, " ") {
		key, value, _ := strings.Cut(part, "=")
		d.Entries = append(d.Entries, &entries.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

func TestEnvoyDescriptors(t *testing.T) {
	r, address := newEnvoy(t)
	client := rls.NewRateLimitServiceClient(r.dialEnvoy(address))
	for _, c := range []struct {
		hits        uint32
		descriptors string
		want        string
	}{
		{0, "authenticated=false remote_address=10.0.0.1", "OK: OK visitor 2 of 3/MINUTE 61s"},
		{2, "authenticated=false remote_address=10.0.0.1", "OK: OK visitor 0 of 3/MINUTE 61s"},
		{0, "authenticated=false remote_address=10.0.0.1", "OVER_LIMIT: OVER_LIMIT visitor 0 of 3/MINUTE 61s"},
		{0, "authenticated=false remote_address=10.0.0.9", "OK: OK visitor 4 of 5/MINUTE 61s"},
		{4, "authenticated=false path=/foo/bar", "OK: OK shop/units 6 of 10/DAY 14400s"},
		{0, "authenticated=false path=/foo/bar remote_address=10.0.0.2", "OK: OK visitor 2 of 3/MINUTE 61s"},
		{0, "authenticated=true client_id=foo", "OK: OK client 99 of 100/HOUR 3602s"},
		{0, "authenticated=true client_id=foo path=/foo/bar", "OK: OK client 98 of 100/HOUR 3602s"},
		{0, "authenticated=maybe", "OK: OK"},
		{
			0, "authenticated=true client_id=foo|authenticated=false remote_address=10.0.0.1|authenticated=false remote_address=10.0.0.2",
			"OVER_LIMIT: OK client 97 of 100/HOUR 3602s, OVER_LIMIT visitor 0 of 3/MINUTE 61s, OK visitor 1 of 3/MINUTE 61s",
		},
		{4, "authenticated=false remote_address=10.0.0.3", "OVER_LIMIT: OVER_LIMIT visitor 0 of 3/MINUTE"},
		{math.MaxUint32, "authenticated=true client_id=foo", "OVER_LIMIT: OVER_LIMIT client 0 of 100/HOUR"},
		{0, "authenticated=true client_id=", "OK: OK client 99 of 100/HOUR 3602s"}, // Envoy sends an empty header so
		{100, "authenticated=true client_id=", "OVER_LIMIT: OVER_LIMIT client 99 of 100/HOUR 3602s"},
	} {
		req := &rls.RateLimitRequest{Domain: "envoy", HitsAddend: c.hits}
		for d := range strings.SplitSeq(c.descriptors, "|") {
			req.Descriptors = append(req.Descriptors, descriptor(d))
		}
		answer, err := client.ShouldRateLimit(with(theToken), req)
		if err != nil {
			t.Fatalf("%s: %v", c.descriptors, err)
		}
		var all []string
		for _, s := range answer.GetStatuses() {
			one := s.GetCode().String()
			if l := s.GetCurrentLimit(); l != nil {
				one += fmt.Sprintf(" %s %d of %d/%s", l.GetName(), s.GetLimitRemaining(), l.GetRequestsPerUnit(), l.GetUnit())
			}
			if d := s.GetDurationUntilReset(); d != nil {
				one += fmt.Sprintf(" %.0fs", d.AsDuration().Seconds())
			}
			all = append(all, one)
		}
		if got := answer.GetOverallCode().String() + ": " + strings.Join(all, ", "); got != c.want {
			t.Errorf("%d of %s:\n%s, want\n%s", c.hits, c.descriptors, got, c.want)
		}
	}
	// A check of 0 units takes none, and says whether there is one.
	for text, want := range map[string]string{"authenticated=false remote_address=10.0.0.1": "OVER_LIMIT 0", "authenticated=false remote_address=10.0.0.9": "OK 4"} {
		one := descriptor(text)
		one.HitsAddend = wrapperspb.UInt64(0)
		for range 2 {
			answer, err := client.ShouldRateLimit(with(theToken), &rls.RateLimitRequest{Domain: "envoy", Descriptors: []*entries.RateLimitDescriptor{one}})
			r.Must(err)
			s := answer.GetStatuses()[0]
			if got := fmt.Sprint(s.GetCode(), " ", s.GetLimitRemaining()); got != want {
				t.Errorf("a check of %s: %s, want %s", text, got, want)
			}
		}
	}
	one := descriptor("authenticated=true client_id=foo")
	for _, addend := range []uint64{0, 50} { // a descriptor's own addend counts instead
		one.HitsAddend = wrapperspb.UInt64(addend)
		answer, err := client.ShouldRateLimit(with(theToken), &rls.RateLimitRequest{Domain: "envoy", HitsAddend: 7, Descriptors: []*entries.RateLimitDescriptor{one}})
		r.Must(err)
		if left := answer.GetStatuses()[0].GetLimitRemaining(); addend > 0 && left != 47 {
			t.Errorf("after %d more, %d are left", addend, left)
		}
	}
	// More than any limit is refused. After an error, Envoy would let the request pass.
	one.HitsAddend = wrapperspb.UInt64(math.MaxUint64)
	answer, err := client.ShouldRateLimit(with(theToken), &rls.RateLimitRequest{Domain: "envoy", Descriptors: []*entries.RateLimitDescriptor{one}})
	if err != nil || answer.GetOverallCode() != rls.RateLimitResponse_OVER_LIMIT {
		t.Errorf("enormous hits: %v, %v", answer, err)
	}
}

func TestEnvoyErrors(t *testing.T) {
	r, address := newEnvoy(t)
	client := rls.NewRateLimitServiceClient(r.dialEnvoy(address))
	const families = "a-token-that-may-only-charge-the-families-0123"
	token, err := access.New("front", families, access.Limits)
	r.Must(err)
	all, err := access.New("", theToken, access.Rights...)
	r.Must(err)
	r.Must(r.server.Update(web.Sources{Sources: r.Sources(), Tokens: []*access.Token{all, token}}, r.Ledger.Book()))
	negative := descriptor("authenticated=true client_id=foo")
	negative.IsNegativeHits = true
	ask := func(ctx context.Context, domain string, d ...*entries.RateLimitDescriptor) codes.Code {
		_, err := client.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: domain, Descriptors: d})
		return status.Code(err)
	}
	pool := descriptor("authenticated=false path=/foo/bar")
	for name, c := range map[string]struct{ got, want codes.Code }{
		"no token":        {ask(context.Background(), "envoy", pool), codes.Unauthenticated},
		"a wrong token":   {ask(with("wrong"), "envoy", pool), codes.Unauthenticated},
		"no right":        {ask(with(families), "envoy", pool), codes.PermissionDenied},
		"the right":       {ask(with(families), "envoy", descriptor("authenticated=true client_id=a")), codes.OK},
		"no domain":       {ask(with(theToken), "", pool), codes.InvalidArgument},
		"no descriptors":  {ask(with(theToken), "envoy"), codes.InvalidArgument},
		"101 descriptors": {ask(with(theToken), "envoy", make([]*entries.RateLimitDescriptor, 101)...), codes.InvalidArgument},
		"negative hits":   {ask(with(theToken), "envoy", negative), codes.InvalidArgument},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	for range 20 {
		ask(with("wrong"), "envoy", pool)
	}
	if got := ask(with("wrong"), "envoy", pool); got != codes.ResourceExhausted {
		t.Errorf("too many guesses: %v", got)
	}
	if got := ask(with(theToken), "envoy", pool); got != codes.OK {
		t.Errorf("the right token after guesses: %v", got)
	}
	r.lose()
	r.priced()
	if got := ask(with(theToken), "envoy", pool); got != codes.Unavailable {
		t.Errorf("without the ledger: %v", got)
	}
}

func TestEnvoyHealthAndReflection(t *testing.T) {
	r, address := newEnvoy(t)
	conn := r.dialEnvoy(address)
	healthy, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{Service: "envoy.service.ratelimit.v3.RateLimitService"})
	if err != nil || healthy.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v %v", healthy, err)
	}
	services := func(ctx context.Context) (string, error) {
		stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
		r.Must(err)
		_ = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
		answer, err := stream.Recv()
		return fmt.Sprint(answer.GetListServicesResponse().GetService()), err
	}
	if got, err := services(with(theToken)); err != nil || !strings.Contains(got, "envoy.service.ratelimit.v3.RateLimitService") {
		t.Errorf("reflection: %s %v", got, err)
	}
	if _, err := services(context.Background()); status.Code(err) != codes.Unauthenticated {
		t.Errorf("reflection without a token: %v", err)
	}
	for ctx, want := range map[context.Context]codes.Code{context.Background(): codes.Unauthenticated, with(theToken): codes.OK} {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		stream, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
		r.Must(err)
		received := make(chan error, 1)
		go func() { _, err := stream.Recv(); received <- err }()
		if err := <-received; status.Code(err) != want {
			t.Errorf("a watch: %v, want %v", err, want)
		}
		cancel()
	}
}

// TestEnvoyIsCrowded: connections that say nothing do not keep others out.
func TestEnvoyIsCrowded(t *testing.T) {
	r, address := newEnvoyOf(t, &web.Options{Connections: 8, ConnectionsPerClient: 4})
	for range 20 {
		conn, err := net.Dial("tcp", address)
		r.Must(err)
		t.Cleanup(func() { _ = conn.Close() })
	}
	client := healthpb.NewHealthClient(r.dialEnvoy(address))
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if _, err := client.Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

// 16 connections at once are granted exactly the limit.
func TestEnvoyUnderLoad(t *testing.T) {
	r, address := newEnvoy(t)
	var granted, refused atomic.Int64
	var callers sync.WaitGroup
	for range 16 {
		client := rls.NewRateLimitServiceClient(r.dialEnvoy(address))
		callers.Go(func() {
			for range 20 {
				ctx, cancel := context.WithTimeout(with(theToken), time.Minute)
				answer, err := client.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "envoy", Descriptors: []*entries.RateLimitDescriptor{descriptor("authenticated=true client_id=busy")}})
				cancel()
				switch {
				case err != nil:
					t.Error(err)
				case answer.GetOverallCode() == rls.RateLimitResponse_OK:
					granted.Add(1)
				default:
					refused.Add(1)
				}
			}
		})
	}
	callers.Wait()
	if granted.Load() != 100 || refused.Load() != 220 {
		t.Errorf("%d granted and %d refused, want 100 and 220", granted.Load(), refused.Load())
	}
}
