package floors

// module is the root of every import path in the house.
const module = "github.com/headroom-quota/headroom"

// modules are the folders with a go.mod, beside the tools of CI.
var modules = []string{".", "quota/observe", "quota/meter/grpcmeter", "quota/open", "quota/pgstore", "ingest", "cmd/ingestor", "bench", "sdktest"}

// house lists the packages from the roof down. A package may import packages on lower
// floors only. Every package must be listed; a listed package need not exist yet.
var house = [][]string{
	{"cmd/ingestor", "docs"},
	{program + "jobs", program + "ledger", program + "serve", program + "setup"}, // the commands, by the room that they serve
	{program + "counting"},
	{program + "session"},       // what the commands open
	{program + "settings"},      // the configuration
	{program + "console"},       // what the commands write
	{program + "testing/chaos"}, // tests of a whole fleet
	{program + "program", program + "agents", program + "testing/benchproxy"}, // run programs behind the proxy; serve agents
	{program + "proxy", program + "testing/benchserve"},
	{program + "web"},
	{program + "access", program + "web/guard"},
	{program + "web/pages", program + "refusals", program + "problem"},
	{program + "metrics", program + "notify"},
	{program + "testing/lifetest"}, // histories for tests of what is said
	{program + "verdict"},          // what they all say
	{program + "testing/viewtest"}, // the sources of pages, for tests
	{program + "web/view", program + "web/kept", program + "traces"},
	{"ingest/plan"}, // runs the real runner, and so stands above it
	{"ingest/fleet"},
	{"ingest"},
	{"ingest/internal/month", "ingest/internal/sdk"}, // only tests
	{"ingest/youtube/youtubetest"},                   // a client of a simulated upstream, for tests
	{"ingest/youtube"},
	{"ingest/catalog/pgcatalog"},
	{"ingest/catalog/catalogtest", "ingest/catalog/catalogtest/library"}, // the suite that every home of a catalog passes
	{"ingest/catalog/catalogtest/dump"},                                  // what a catalog holds, as text
	{"ingest/catalog"},
	{"ingest/catalog/words"},
	{program + "draft"},   // makes price books of what was recorded or documented
	{program + "record"},  // keeps of calls what drafts need
	{program + "peers"},   // that limiters are compared with
	{"internal/boundary"}, // what limiters let through at worst
	{"internal/recorded"}, // makes recorded calls without a call
	{"quota/observe/otel", "quota/observe/prom"},
	{"quota/observe/spans"}, // the words of traces
	{"quota/meter/grpcmeter"},
	{"quota/open"},
	{"."}, // the first door, and the built-in price books
	{"quota/meter", "quota/throttle"},
	{"internal/charged"},
	{"quota/memstore", "quota/sqlitestore", "quota/redisstore", "quota/pgstore", "quota/journal", "quota/breaker", "quota/leasestore"},
	{"quota/lease"},     // who holds a job
	{"quota/pagestore"}, // a whole store over a backend, for those that keep pages in Go
	{"quota/storetest"},
	{"quota/storekit"},
	{"quota"},
	{"internal/content"}, // what a price book names in requests and answers
	{"quota/book", "quota/pace", "quota/fair"},                       // pace: learns a limit from refusals; fair: whose turn it is; time is an argument
	{"quota/book/keys", "quota/book/builtin", "internal/strictyaml"}, // strictyaml: reads YAML that people write
	{"quota/window"},
	{"internal/testing/filetest"}, // the tests that every file of SQLite passes
	{"internal/sqlitefile", "quota/pgstore/pgschema", "internal/svg"}, // of all who keep a file of SQLite or tables in PostgreSQL; of all who draw
	{"internal/sqlfiles"}, // the SQL that a package embeds
	{"ingest/youtube/youtubesim", program + "testing/monitoringsim", "internal/testing/server"}, // upstreams: they know nothing of us
	{program + "googlecount"}, // reads Google's own count, and knows no ledger
	{"internal/redisclock", "internal/testing/redistest", "quota/pgstore/testing/pgtest", "internal/testing/childtest", "internal/testing/team"}, // for tests and simulations
	{"internal/deadline", "internal/places", program + "collect", program + "signals", "internal/stretch", "internal/shell", "internal/pattern"}, // signals: caught before large packages are set up
	{"internal/testing/floors", "internal/testing/taken", "internal/testing/ways"},
	{"internal/testing/guides"},
}

// program has the packages that only the program uses.
const program = "cmd/ingestor/internal/"

// tenants are all that these packages may import outside the standard library,
// directly or not. A path stands for what is under it too.
var tenants = map[string][]string{
	"quota/window":    {},
	"quota/pace":      {module + "/quota/window"},
	"quota/fair":      {module + "/quota/window"},
	"internal/svg":    {},
	"quota/book":      {module + "/quota/window", module + "/quota/book/keys", module + "/internal/strictyaml", "github.com/goccy/go-yaml"},
	"quota/book/keys": {module + "/quota/window"},
	"quota":           {module + "/quota/book", module + "/quota/fair", module + "/quota/pace", module + "/quota/window", module + "/internal/stretch", module + "/internal/strictyaml", "github.com/goccy/go-yaml"},
	// A program with just a ledger in memory stays small: no client of Redis, no SQLite.
	"quota/memstore": {module, "github.com/goccy/go-yaml"},
	"quota/lease":    {module + "/quota", module + "/internal/shell", module + "/internal/stretch", module + "/internal/strictyaml", "github.com/goccy/go-yaml", "golang.org/x/sys/unix"},
}

// stores are what quota/open chooses from. No other package imports all of them.
var stores = []string{"quota/memstore", "quota/sqlitestore", "quota/redisstore", "quota/pgstore"}

// keys open a dependency to a few packages only, tests aside. A path stands for
// what is under it too, unless that has a line of its own.
var keys = map[string][]string{
	"github.com/spf13/cobra":              {"cmd/ingestor", program + "console", program + "settings", program + "session", program + "jobs", program + "ledger", program + "serve", program + "setup"},
	"github.com/spf13/viper":              {program + "settings"},
	"google.golang.org/api/youtube":       {"ingest/youtube"},
	"google.golang.org/api/monitoring":    {program + "googlecount"},
	"cloud.google.com/go":                 {program + "googlecount"},
	"github.com/redis/go-redis":           {"quota/redisstore", program + "peers"}, // peers: what others do in Redis
	"github.com/jackc/pgx":                {"quota/pgstore", "ingest/catalog/pgcatalog", "ingest/fleet", "quota/pgstore/pgschema"},
	"github.com/riverqueue/river":         {"ingest/fleet"},
	"modernc.org/sqlite":                  {"internal/sqlitefile", "ingest/catalog"},
	"github.com/goccy/go-yaml":            {"internal/strictyaml", program + "ledger", program + "draft"}, // ledger: a price book as JSON; draft: OpenAPI
	"github.com/sony/gobreaker":           {"quota/breaker"},
	"github.com/dunglas/httpsfv":          {"internal/content"}, // the fields RateLimit and RateLimit-Policy
	"github.com/prometheus":               {program + "metrics", "quota/observe/prom"},
	"google.golang.org/grpc":              {"quota/meter/grpcmeter", program + "web"}, // users of quota/meter do not get it
	"github.com/envoyproxy":               {program + "web"},
	"text/template":                       {}, // a program that uses it keeps all methods of all that it links: a fifth of ours
	"html/template":                       {},
	"github.com/DataDog/datadog-agent":    {program + "proxy", program + "setup", program + "web/pages"}, // both without methods
	"github.com/modelcontextprotocol":     {program + "agents"},
	"google.golang.org/genproto":          {"quota/meter/grpcmeter"},
	"go.opentelemetry.io":                 {program + "traces", "quota/observe/spans", "quota/observe/otel"},
	"github.com/anishathalye/porcupine":   {"quota/storetest"},
	module + "/quota/redisstore":          {"quota/open", program + "ledger"}, // ledger: dials for prove
	module + "/quota/pgstore":             {"quota/open"},
	module + "/quota/pgstore/pgschema":    {"quota/pgstore", "ingest/catalog/pgcatalog", "ingest/fleet"},
	module + "/quota/pgstore/testing":     {},
	module + "/quota/sqlitestore":         {"quota/open", program + "ledger"}, // ledger: backup and restore
	module + "/quota/journal":             {"quota/open"},
	module + "/quota/breaker":             {"quota/open"},
	module + "/quota/leasestore":          {"quota/open"},
	module + "/internal/redisclock":       {"quota/redisstore", "ingest/plan"},
	module + "/internal/testing":          {}, // only tests, and what is in a folder called testing
	module + "/" + program + "testing":    {},
	module + "/quota/storetest":           {},
	module + "/ingest/youtube/youtubesim": {program + "jobs", "ingest/plan"},
	module + "/" + program + "peers":      {program + "ledger"},

	module + "/ingest/catalog/catalogtest": {"ingest/catalog/catalogtest"}, // what it dumps
	module + "/ingest/youtube/youtubetest": {},
}

// blind packages, and all that is under them, never import these, in tests
// neither: the ledger knows nothing of those who use it.
var blind = map[string][]string{
	"quota": {module + "/ingest", module + "/cmd", "google.golang.org/api"},
}

// seams are the only files below the commands that may read the machine's clock, at most
// one in a package: everything else is told the time.
var seams = []string{
	"quota/clock.go",
	program + "session/session.go",
	"ingest/fleet/clock.go",
	"ingest/youtube/youtubesim/clock.go",
	"internal/deadline/deadline.go", // deadlines of contexts are in the machine's time
	"quota/storetest/rig.go",        // for stores whose clock cannot be moved
}

// versions are those that must not drift: newer ones do not build everywhere.
var versions = map[string]string{
	"google.golang.org/api": "v0.309.0",
}
