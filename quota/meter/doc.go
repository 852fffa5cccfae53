// Package meter reserves the calls of an HTTP client in a ledger before they are sent.
//
// Give an SDK a client with this transport, and change nothing else. For YouTube's SDK:
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
// Package quota/open opens the ledger. The routes of the price book say which method a
// request calls. Each request is a call, so pages, uploads and retries are metered one by
// one. If the units are not there, the request is not sent. The SDK then returns the
// ledger's error, which [errors.As] finds:
//
//	var refused *quota.RefusedError
//	if errors.As(err, &refused) {
//		resumeAt(refused.RetryAt)
//	}
//
// Requests to hosts that the price book does not list pass unmetered. That includes a test
// server, until its host is listed. The log names each such host once, because it may be a
// typo. With [Options].Strict, such requests are refused ([UnlistedError]). A request to a listed host that has no price is
// refused, with the line to add to the price book (see unpriced in costs.yaml). A batch
// of calls and a request with a header that changes its verb are refused, too.
//
// # Labels and accounts
//
// Labels, class and account come from the context ([WithJob], [WithRegion],
// [WithClass], [WithAccount]), and so does a [quota.Hold] that pays
// ([quota.Hold.Context]). All are optional. [WithOutage] says what to do while the ledger
// is down, and [WithBudget] bounds the cost of all calls of one run.
//
// # Charges
//
// A call that never got a connection was not sent, and is released. All other calls keep
// their charge, also if they failed or were cancelled, because the upstream may have counted
// them. If net/http sends a request again on a new connection, each try is charged. A
// redirect is a call, too. A redirect to another host is refused ([RedirectError]), unless
// the price book lists that host under redirects. The first request of a resumable upload is
// charged, and its chunks are free.
//
// # Costs that depend on the content
//
// A price may read the request for an estimate, which is reserved, and the response for the
// actual cost. The transport reads a response while the caller does, and delays nothing.
// When the body has ended or was closed, the call is settled in the background. If the body
// was cut, or does not tell the cost, the estimate stands. So always close the body, and
// call [Transport.Flush] before the program ends. [Options].Price and Actual are for costs
// that a price book cannot express.
//
// # Reports about limits
//
// The feedback of the price book says where responses report what is left of a limit. Units
// that the upstream has counted, and that were not reserved in the ledger, are charged to
// the pool: see [quota.Ledger.Observe].
//
// The refusals of the price book say what the upstream's refusals mean. If a quota is used
// up, pools are shut for every process, until their reset or for a while: those that the
// rule names, or else those of the call. The response itself is returned unchanged. The next
// call gets a [quota.RefusedError] with the time at which the pool opens. If a response means
// that the key is invalid, the transport returns a [CredentialError].
//
// Some SDKs retry every error of a transport. [As429] gives them a response instead.
//
// # The API key
//
// The transport sets the key in the header that the price book names, only on requests to
// the upstream's hosts. It does so on a copy, so the key is neither in the caller's
// request nor in the response's. The key is in no error and no log, and the caller's
// httptrace sees (hidden) instead. A request with the key in its URL is refused, because
// net/http shows the URL in its errors. Some SDKs, such as Google's, ignore an API key
// option when they get a client of their own.
//
// net/http itself writes to Go's standard logger what an upstream sends on an idle connection.
// If such a line could repeat a key, redirect that logger with [log.SetOutput] to a writer
// that leaves out quoted texts. The transport does not do so, because the logger belongs to
// the program.
package meter
