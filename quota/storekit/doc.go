// Package storekit is for authors of stores: what every [quota.Store] needs, whether it
// keeps its pages in Go or in a database with scripts of its own. Users of a ledger do
// not need it. A store that keeps pages in Go takes quota/pagestore instead, which uses
// this package.
//
//   - Receipts: [OtherCharges], [NoReceipt] and [OtherWindows] are the errors by which a
//     store refuses a request, and [Released] tells which ids are free again.
//     [quota.Units.InOrder] checks what a reservation is settled to.
//   - Spend: [DayOf] and [DayName] are the days by which it is kept, and [Covers] tells
//     which of them a query asks for. A store returns it in the order of
//     [quota.Spent.Compare].
//   - Memory: [Births] notices that a store has lost data, or was set back to an older
//     copy of it.
//   - Patience: [Apart] runs operations apart from their callers, who may leave.
//   - Stores around another one: [Complete] adds what the other one cannot do.
//
// Package quota/storetest has the suite that every store passes.
package storekit
