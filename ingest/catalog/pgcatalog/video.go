package pgcatalog

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Known implements [catalog.Home]. It locks the videos in the order in which every page does.
func (h *home) Known(b catalog.Batch, rows []*catalog.Row, others []string, known func(string, catalog.Known)) {
	ids, digests := slices.Clone(others), map[string][]byte{}
	for _, r := range rows {
		ids = append(ids, r.Video.ID)
		digests[r.Video.ID] = digest(r)
	}
	b.Query(func(scan catalog.Scan) error {
		var id string
		var k catalog.Known
		var was []byte
		err := scan(&id, &k.Brief, &was)
		k.Equal = slices.Equal(was, digests[id])
		known(id, k)
		return err
	}, "videos_lock", ids)
}

// digest returns the digest of a video, and notes it.
func digest(r *catalog.Row) []byte {
	if r.Digest == nil {
		said, _ := json.Marshal(held(r.Columns())[1:]) // texts and numbers: it never fails
		sum := sha256.Sum256(said)
		r.Digest = sum[:16]
	}
	return r.Digest
}

// SaveVideos implements [catalog.Home].
func (h *home) SaveVideos(tx catalog.Tx, rows []*catalog.Row) {
	var all [][]any
	for _, r := range rows {
		all = append(all, append(r.Columns(), digest(r)))
	}
	tx.Bulk("videos_save", []any{tx.Now}, all)
	saveWords(tx, rows)
}

// RemoveVideos implements [catalog.Home].
func (h *home) RemoveVideos(tx catalog.Tx, ids []string) { tx.Exec("videos_remove", ids) }
