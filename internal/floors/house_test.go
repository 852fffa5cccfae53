package floors

// module is the root of every import path in the house.
const module = "github.com/headroom-quota/headroom"

// house lists the packages from the roof down. A package may import packages on lower
// floors only. Every package must be listed; a listed package need not exist yet.
var house = [][]string{
	{"cmd/ingestor"},
	{"internal/chaos"},                      // tests of a whole fleet
	{"internal/program", "internal/agents"}, // run programs behind the proxy; serve agents
	{"internal/proxy"},
	{"internal/web"},
	{"internal/web/pages", "internal/web/guard", "internal/refusals"},
	{"internal/metrics"},
	{"internal/web/viewtest"}, // the sources of pages, for tests
	{"internal/web/view", "internal/web/kept", "internal/traces"},
	{"ingest/plan"}, // runs the real runner, and so stands above it
	{"ingest/fleet"},
	{"ingest"},
	{"ingest/youtube/youtubetest"}, // a client of a simulated upstream, for tests
	{"ingest/youtube"},
	{"ingest/catalog/pgcatalog"},
	{"ingest/catalog/catalogtest"}, // the suite that every home of a catalog passes
	{"ingest/catalog"},
	{"ingest/catalog/words"},
	{"internal/peers"},    // that limiters are compared with
	{"internal/boundary"}, // what limiters let through at worst
	{"internal/recorded"}, // makes recorded calls without a call
	{"quota/observe/otel", "quota/observe/prom"},
	{"internal/spans"}, // the words of traces
	{"quota/meter/grpcmeter"},
	{"quota/meter", "quota/throttle", "quota/open", "."}, // the root holds the built-in price books
	{"internal/charged"},
	{"quota/memstore", "quota/sqlitestore", "quota/redisstore", "quota/pgstore", "quota/journal", "quota/breaker", "quota/leasestore"},
	{"quota/lease"},     // who holds a job
	{"quota/pagestore"}, // a whole store over a backend, for those that keep pages in Go
	{"quota/storetest"},
	{"quota/storekit"},
	{"quota"},
	{"internal/content"}, // what a price book names in requests and answers
	{"quota/book"},
	{"quota/book/keys"},
	{"quota/window"},
	{"internal/sqlitefile/filetest"}, // the tests that every file of SQLite passes
	{"internal/sqlitefile", "internal/pgschema", "internal/svg"},                           // of all who keep a file of SQLite or tables in PostgreSQL; of all who draw
	{"internal/youtubesim", "internal/monitoringsim"},                                      // upstreams: they know nothing of us
	{"internal/googlecount"},                                                               // reads Google's own count, and knows no ledger
	{"internal/redisclock", "internal/redistest", "internal/pgtest", "internal/childtest"}, // for tests and simulations
	{"internal/deadline", "internal/signals", "internal/stretch", "internal/shell"},        // signals: caught before large packages are set up
	{"internal/floors"},
}

// tenants are all that these packages may import outside the standard library,
// directly or not. A path stands for what is under it too.
var tenants = map[string][]string{
	"quota/window":    {},
	"internal/svg":    {},
	"quota/book":      {module + "/quota/window", module + "/quota/book/keys", "github.com/goccy/go-yaml"},
	"quota/book/keys": {module + "/quota/window"},
	"quota":           {module + "/quota/book", module + "/quota/window", module + "/internal/stretch", "github.com/goccy/go-yaml"},
	// A program with just a ledger in memory stays small: no client of Redis, no SQLite.
	"quota/memstore": {module, "github.com/goccy/go-yaml"},
	"quota/lease":    {module + "/quota", module + "/internal/stretch", "github.com/goccy/go-yaml", "golang.org/x/sys/unix"},
}

// stores are what quota/open chooses from. No other package imports all of them.
var stores = []string{"quota/memstore", "quota/sqlitestore", "quota/redisstore", "quota/pgstore"}

// keys open a dependency to a few packages only, tests aside. A path stands for
// what is under it too.
var keys = map[string][]string{
	"github.com/spf13/cobra":            {"cmd/ingestor"},
	"github.com/spf13/viper":            {"cmd/ingestor"},
	"google.golang.org/api/youtube":     {"ingest/youtube"},
	"google.golang.org/api/monitoring":  {"internal/googlecount", "internal/monitoringsim"},
	"cloud.google.com/go":               {"internal/googlecount"},
	"github.com/redis/go-redis":         {"quota/redisstore", "internal/redistest", "internal/peers"}, // peers: what others do in Redis
	"github.com/jackc/pgx":              {"quota/pgstore", "ingest/catalog/pgcatalog", "ingest/fleet", "internal/pgschema", "internal/pgtest"},
	"github.com/riverqueue/river":       {"ingest/fleet"},
	"modernc.org/sqlite":                {"internal/sqlitefile", "quota/sqlitestore", "ingest/catalog"},
	"github.com/goccy/go-yaml":          {"quota/book", "cmd/ingestor"},
	"github.com/sony/gobreaker":         {"quota/breaker"},
	"github.com/prometheus":             {"internal/metrics", "quota/observe/prom"},
	"google.golang.org/grpc":            {"quota/meter/grpcmeter", "internal/web"}, // users of quota/meter do not get it
	"github.com/envoyproxy":             {"internal/web"},
	"github.com/modelcontextprotocol":   {"internal/agents"},
	"google.golang.org/genproto":        {"quota/meter/grpcmeter"},
	"go.opentelemetry.io":               {"internal/traces", "internal/spans", "quota/observe/otel"},
	"github.com/anishathalye/porcupine": {"quota/storetest"},
	module + "/quota/redisstore":        {"quota/open", "cmd/ingestor"}, // cmd: dials for prove
	module + "/quota/pgstore":           {"quota/open"},
	module + "/quota/sqlitestore":       {"quota/open", "cmd/ingestor"}, // cmd: ledger backup and restore
	module + "/quota/journal":           {"quota/open"},
	module + "/quota/breaker":           {"quota/open"},
	module + "/quota/leasestore":        {"quota/open"},
	module + "/internal/redisclock":     {"quota/redisstore", "ingest/plan"},
	module + "/internal/redistest":      {},
	module + "/internal/pgtest":         {},
	module + "/internal/childtest":      {"internal/sqlitefile/filetest"},
	module + "/quota/storetest":         {},
	module + "/internal/web/viewtest":   {},
	module + "/internal/youtubesim":     {"cmd/ingestor", "ingest/plan", "internal/web/viewtest"},
	module + "/internal/monitoringsim":  {},
	module + "/internal/peers":          {"cmd/ingestor"},
	module + "/cmd":                     {},

	module + "/ingest/catalog/catalogtest":   {},
	module + "/ingest/youtube/youtubetest":   {"internal/web/viewtest"},
	module + "/internal/sqlitefile/filetest": {},
}

// blind packages, and all that is under them, never import these, in tests
// neither: the ledger knows nothing of those who use it.
var blind = map[string][]string{
	"quota": {module + "/ingest", module + "/internal/web", module + "/cmd", "google.golang.org/api"},
}

// seams are the only files below cmd that may read the machine's clock, at most
// one in a package: everything else is told the time.
var seams = []string{
	"quota/clock.go",
	"ingest/fleet/clock.go",
	"internal/youtubesim/clock.go",
	"internal/deadline/deadline.go", // deadlines of contexts are in the machine's time
	"quota/storetest/rig.go",        // for stores whose clock cannot be moved
}

// versions are those that must not drift: newer ones do not build everywhere.
var versions = map[string]string{
	"google.golang.org/api": "v0.309.0",
}
