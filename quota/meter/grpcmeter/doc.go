// Package grpcmeter reserves the calls of a gRPC client in a ledger before they are sent,
// as package meter does for HTTP. Its interceptors need no change of the client's code:
//
//	m, err := grpcmeter.New(ledger, &meter.Options{MaxWait: 2 * time.Minute})
//	if err != nil {
//		log.Fatal(err)
//	}
//	conn, err := grpc.NewClient("googleads.googleapis.com:443",
//		grpc.WithTransportCredentials(credentials.NewTLS(nil)),
//		grpc.WithUnaryInterceptor(m.Unary), grpc.WithStreamInterceptor(m.Stream))
//
// A price book sees a call as the request over HTTP that it is. The host is that of the
// connection's target, and the route is the full name of the method:
//
//	hosts: [googleads.googleapis.com]
//	methods:
//	  search: {route: POST /google.ads.googleads.v22.services.GoogleAdsService/Search, pool: operations, cost: 1}
//
// Metadata are headers. The messages are read as JSON, with the names of protojson, such as
// {body: pageSize}; {bytes: body} is the size of the encoded request. The messages of a
// stream are the lines of an answer. The request of a stream has no body.
//
// A status is read as Google's APIs write it over HTTP: RESOURCE_EXHAUSTED is 429,
// with its RetryInfo in Retry-After, and the details are in the body below error. So the
// refusals and the free answers of the book work. A status that comes after the first
// message of a stream shuts no pool.
//
// A call is charged once, though gRPC may send it again by itself. A stream is one call. It
// is settled when RecvMsg has returned its last error, or its context has ended.
package grpcmeter
