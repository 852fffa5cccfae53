package web

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	entries "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// envoy answers Envoy's rate limit service, by the same code as /v1/reserve.
type envoy struct{ *Server }

// ShouldRateLimit takes the units of each descriptor, in order and apart from the others.
// Descriptors that the price book does not have are not limited.
func (e envoy) ShouldRateLimit(ctx context.Context, r *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	switch n := len(r.GetDescriptors()); {
	case r.GetDomain() == "":
		return nil, status.Error(codes.InvalidArgument, "the domain is empty")
	case n == 0 || n > maxCalls:
		return nil, status.Errorf(codes.InvalidArgument, "send 1 to %d descriptors, not %d", maxCalls, n)
	}
	answer := &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}
	for i, d := range r.GetDescriptors() {
		one, err := e.limit(ctx, r, d)
		if err != nil {
			return nil, e.callError(rls.RateLimitService_ShouldRateLimit_FullMethodName, err)
		}
		if one.GetCode() == rls.RateLimitResponse_OVER_LIMIT {
			answer.OverallCode = rls.RateLimitResponse_OVER_LIMIT
		}
		answer.Statuses = append(answer.Statuses, one)
		if ctx.Err() != nil && i+1 < len(r.GetDescriptors()) {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	return answer, nil
}

// limit takes the units of one descriptor.
func (e envoy) limit(ctx context.Context, r *rls.RateLimitRequest, d *entries.RateLimitDescriptor) (*rls.RateLimitResponse_DescriptorStatus, error) {
	costs := e.current().Ledger.Book()
	parts := make([]book.Entry, len(d.GetEntries()))
	for i, part := range d.GetEntries() {
		parts[i] = book.Entry{Key: part.GetKey(), Value: part.GetValue()}
	}
	open := &rls.RateLimitResponse_DescriptorStatus{Code: rls.RateLimitResponse_OK}
	meant, key := costs.Describes(r.GetDomain(), parts)
	if meant == nil {
		return open, nil
	}
	units := int64(max(r.GetHitsAddend(), 1))
	if d.GetHitsAddend() != nil {
		units = int64(min(d.GetHitsAddend().GetValue(), window.MaxUnits))
	}
	if d.GetIsNegativeHits() {
		return nil, problem.BadInput("is_negative_hits is not supported: units are given back by /v1/settle")
	}
	if d.GetLimit() != nil {
		if due, skipped := e.complaints.Due("limits in descriptors"); due {
			e.o.Log.Warn("a descriptor names a limit of its own; it is ignored, and that of the price book holds", "domain", r.GetDomain(), "skipped", skipped)
		}
	}
	verdict, err := e.take(ctx, costs, meant, key, units)
	var refused *quota.RefusedError
	var impossible *quota.ImpossibleError
	switch {
	case err == nil:
		return statusOf(costs, meant, &verdict), nil
	case errors.As(err, &refused):
		return statusOf(costs, meant, &refused.Verdict), nil
	case errors.As(err, &impossible):
		return statusOf(costs, meant, &quota.Verdict{Window: impossible.Window, Limit: impossible.Limit, Pool: impossible.Pool}), nil
	}
	if p, is := errors.AsType[*problem.Problem](err); is && p.Code == codeBudget {
		return statusOf(costs, meant, &quota.Verdict{}), nil
	}
	return nil, problem.OfLedger(costs, err)
}

// take takes units. Of 0 it takes none, and answers whether there is one left: so gateways
// check a request whose cost is known only afterwards.
func (e envoy) take(ctx context.Context, costs *book.Book, d *book.Descriptor, key string, units int64) (quota.Verdict, error) {
	by := ctx.Value(callerKey{}).(*access.Token)
	call := callOf(costs, d, key, max(units, 1))
	if units == 0 {
		if err := e.mayCall(by, call); err != nil {
			return quota.Verdict{}, err
		}
		v, err := e.current().Ledger.Check(ctx, *call)
		v.Remaining++ // it was not taken
		return v, err
	}
	granted, err := e.decide(ctx, by, call)
	if err != nil {
		return quota.Verdict{}, err
	}
	return granted.Verdict, nil
}

// callOf returns the call that a descriptor means.
func callOf(costs *book.Book, d *book.Descriptor, key string, units int64) *quota.Call {
	if d.Family != "" {
		return &quota.Call{Family: d.Family, Key: key, Units: units}
	}
	c := &quota.Call{Upstream: d.Upstream, Account: d.Account, Charges: quota.Units{d.Pool: units}}
	if key != "" && costs.Upstreams[d.Upstream].Pools[d.Pool].By != nil {
		c.Keys = map[string]string{d.Pool: key}
	}
	return c
}

// statusOf returns the answer to a descriptor.
func statusOf(costs *book.Book, d *book.Descriptor, v *quota.Verdict) *rls.RateLimitResponse_DescriptorStatus {
	answer := &rls.RateLimitResponse_DescriptorStatus{Code: rls.RateLimitResponse_OVER_LIMIT, LimitRemaining: clamp(v.Remaining)}
	until := v.RetryAfter
	if v.Allowed {
		answer.Code, until = rls.RateLimitResponse_OK, max(v.ResetAt.Sub(v.At), 0)
	}
	if v.Window == "" { // it was admitted without an answer of the store
		answer.LimitRemaining = 0
		return answer
	}
	if until > 0 {
		answer.DurationUntilReset = durationpb.New(until)
	}
	answer.CurrentLimit = &rls.RateLimitResponse_RateLimit{
		Name: cmp.Or(d.Family, v.Pool.String()), RequestsPerUnit: clamp(v.Limit), Unit: unitOf(costs, d, v.Window),
	}
	return answer
}

// unitOf returns the unit of time of a window, if Envoy has a name for it.
func unitOf(costs *book.Book, d *book.Descriptor, name string) rls.RateLimitResponse_RateLimit_Unit {
	var windows []book.Window
	if f := costs.Families[d.Family]; f != nil {
		windows = f.Windows
	} else if u := costs.Upstreams[d.Upstream]; u != nil && u.Pools[d.Pool] != nil {
		windows = u.Pools[d.Pool].WindowsFor(d.Account)
	}
	for i := range windows {
		if spec := windows[i].Spec; spec.String() == name {
			return cmp.Or(unitsPer[spec.Per], unitsOf[spec.Period])
		}
	}
	return rls.RateLimitResponse_RateLimit_UNKNOWN
}

var (
	unitsPer = map[time.Duration]rls.RateLimitResponse_RateLimit_Unit{
		time.Second: rls.RateLimitResponse_RateLimit_SECOND, time.Minute: rls.RateLimitResponse_RateLimit_MINUTE,
		time.Hour: rls.RateLimitResponse_RateLimit_HOUR, 24 * time.Hour: rls.RateLimitResponse_RateLimit_DAY,
	}
	unitsOf = map[window.Period]rls.RateLimitResponse_RateLimit_Unit{
		window.Minute: rls.RateLimitResponse_RateLimit_MINUTE, window.Hour: rls.RateLimitResponse_RateLimit_HOUR,
		window.Day: rls.RateLimitResponse_RateLimit_DAY, window.Week: rls.RateLimitResponse_RateLimit_WEEK, window.Month: rls.RateLimitResponse_RateLimit_MONTH,
	}
)
