// Package throttle is middleware that limits how often each client may call an http
// server. The limits are a family of a price book, in any store. Package meter does the
// same for outgoing calls.
//
//	ledger, err := quota.New(throttle.Book(), memstore.New(nil), nil)
//	...
//	limiter, err := throttle.New(ledger, nil)
//	...
//	http.ListenAndServe(addr, limiter.Handler(mux))
//
// That is 60 requests a minute for each client address. An IPv6 network of /64 counts as
// one client. For other limits, write a family into a price book. Single keys can have
// limits of their own:
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
// [Options] say which requests a limit is for, and what its key is. For one process, use
// a second ledger of the same book in memstore, whatever store holds the upstream's quota.
// In SQLite or Redis several processes share the limits, at the cost of one round trip a
// request.
//
// # Responses
//
// Every response has RateLimit-Policy and RateLimit, as in
// draft-ietf-httpapi-ratelimit-headers-11, in whole seconds:
//
//	RateLimit-Policy: "client";q=60;w=60
//	RateLimit: "client";r=12;t=34
//
// A policy has the name of its family. If the family has several windows, the name ends
// with the window ("search-1s"), and RateLimit is about the window with the least left. A
// refused request gets 429, a Retry-After, and a body of application/problem+json that
// names the policy. After that time the same request is admitted, if no other request
// with its key comes first. A refused request costs nothing of the limit that refused it.
// While the store is down, RateLimit is missing.
//
// # Delays
//
// With [Options.Delay], a request above its limit waits for it, in place of a 429. Requests of one key
// are admitted in the order in which they came. A request is refused as soon as it is known that its
// turn comes too late. One for which there is no place does not wait: see [Options.Delayed]. A client
// that hangs up is let go. A server notices that at once only if the request has no body, or a handler has read it.
//
// # Addresses of clients
//
// The address of a client is that of its connection. If the connection comes from one of
// [Options.TrustedProxies], it is the address in the proxies' headers, read from the right
// up to the first untrusted one. Other clients cannot change their address by headers. A
// client can invent headers and tokens, so a limit by these alone is safe only for
// authenticated requests. Add a limit by address for all others.
package throttle
