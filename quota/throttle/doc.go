// Package throttle limits how often each client may ask an http server: a
// middleware, on a family of a price book in any store. It is the other side of
// what package meter does for calls that leave.
//
//	ledger, err := quota.New(throttle.Book(), memstore.New(nil), nil)
//	...
//	limiter, err := throttle.New(ledger, nil)
//	...
//	http.ListenAndServe(addr, limiter.Handler(mux))
//
// That is 60 requests a minute for each client address, an IPv6 network of /64
// counting as one. Other limits are a family in a price book, with limits of their
// own for single keys:
//
//	families:
//	  client:
//	    quota: 60
//	    windows: [{per: 1m, algorithm: counter}]
//	    max_keys: 100000                 # pages at most; further clients share one
//	    keys:
//	      203.0.113.7: {quota: 6000}     # an address
//	      "2001:db8:7:1::/64": {quota: 600}
//	  search:
//	    windows: [{per: 1s, quota: 2}, {per: 1m, quota: 20}]
//
// and [Options] say which requests they hold for, and what a key is made of.
// Within one process memstore is the place for them, whatever store the ledger of
// an upstream's quota is in: a second ledger of the same book. On SQLite or Redis
// several processes share the limits; then each request costs a question there.
//
// # Answers
//
// Every answer has RateLimit-Policy and RateLimit, as in
// draft-ietf-httpapi-ratelimit-headers-11, in whole seconds:
//
//	RateLimit-Policy: "client";q=60;w=60
//	RateLimit: "client";r=12;t=34
//
// A policy has the name of its family; where that has several windows, the window's
// behind it ("search-1s"), and RateLimit tells the one with the least left. A
// request too many is answered with 429, a Retry-After at which the same request is
// admitted if nobody else with its key asks, and a body of application/problem+json
// that names the policy. It costs the client nothing of the limit that refuses: it may
// ask on. While the store cannot be reached nobody knows what is left, and RateLimit is
// missing.
//
// # Who a client is
//
// The address of a client is that of its connection, unless that is one of
// [Options.TrustedProxies]: then it is what the proxies say, read from the right up
// to the first that is not trusted. A client without a trusted proxy cannot
// influence its address by headers. What a client writes into a header or a token is
// its own choice, so a limit by these alone limits nobody who invents new ones, but
// where the request was authenticated before. Give a limit by address beside it.
package throttle
