// Package meter reserves the calls of an HTTP client in a ledger before they leave.
//
// Wrap the client that an SDK is given, and change nothing else. Of YouTube's:
//
//	transport, err := meter.New(ledger, &meter.Options{
//		MaxWait: 2 * time.Minute,
//		Keys:    map[string]meter.KeySource{"youtube": meter.Key(os.Getenv("YOUTUBE_API_KEY"))},
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//	client := &http.Client{Transport: transport}
//	service, err := youtube.NewService(ctx, option.WithHTTPClient(client))
//
// The ledger is a [quota.Ledger], which [quota.New] makes of a price book and a store.
// The routes of the price book say which method a request calls. Each request is a
// call, so pages, uploads and retries are metered one by one. A call that cannot be
// paid for is not sent; the ledger's error comes back through the SDK, and
// [errors.As] finds it:
//
//	var refused *quota.RefusedError
//	if errors.As(err, &refused) {
//		resumeAt(refused.RetryAt)
//	}
//
// Requests to hosts that the price book does not list pass untouched, also those to
// a stand-in for the upstream, until its host is listed. One to a host
// that it lists, but which has no price, is refused with the line to add (see
// unpriced in costs.yaml). So are a batch of calls, and a request with a header that
// makes another verb of it.
//
// # Who calls
//
// Labels, class and account come from the context ([WithJob], [WithRegion],
// [WithClass], [WithAccount]), and so does a [quota.Hold] that pays
// ([quota.Hold.Context]). Without any, the method is label enough. [WithOutage] says
// what to do while the ledger cannot be reached, and [WithBudget] bounds what the
// calls of one run may cost together.
//
// # What a call is charged
//
// A call that provably never left is released: a connection was asked for and none
// was got. Everything else keeps its charge, also a call that failed or was
// cancelled, because the upstream may have counted it. A request that net/http sent
// again, on another connection because the first had died, is charged for each.
// Redirects within a host are calls, too; to another host they are refused
// ([RedirectError]). A chunk of a resumable upload costs nothing: its beginning did.
//
// # When the upstream says no
//
// The price book's refusals say what its answers mean. One that means that a quota
// is used up shuts the pools of the call for every process, until their reset or
// for a while. The answer itself comes back as it is, and the next call gets a
// [quota.RefusedError] with the time at which the pool opens. One that means that
// the key may not be used comes back as a [CredentialError].
//
// # The API key
//
// The transport sets it, in the header that the price book names, on requests to
// the hosts of the upstream only: on a copy of the request, so that neither the
// caller's request nor the answer's has it. It is in no error and no log, and a
// httptrace of the caller's sees (hidden) in its place. A request that has the key
// in its URL is refused, because net/http shows the URL in each of its errors, as
// it does in that one. An SDK that is given a client may ignore the key that it is
// given beside it, as Google's does.
package meter
