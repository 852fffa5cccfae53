package meter

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

const (
	mostLearned = 4096             // costs that are remembered; for more of them others are forgotten
	saveEvery   = 30 * time.Second // at most
	memoryForm  = 1                // of the file
)

// costOf names what is learned: the cost of a method's calls in one pool.
type costOf struct {
	Upstream, Account, Method, Pool string
	Key                             string `json:",omitempty"` // of a keyed pool
}

// costOf names what the cost of a call in a pool teaches.
func (c *call) costOf(pool string) costOf {
	return costOf{c.upstream.Name, c.account, c.name, pool, c.keys[pool]}
}

// memory remembers what recent calls have cost.
type memory struct {
	mu     sync.Mutex
	costs  map[costOf]*recent
	shared map[costOf]*sharedCosts // by method
	file   string                  // "" keeps nothing across restarts
	saved  time.Time
	dirty  bool
}

// memoryFile is the file of a memory.
type memoryFile struct {
	Form  int
	Costs []learnedCost
}

type learnedCost struct {
	Of   costOf
	Cost *recent
}

// load reads the file. A memory that cannot be read is begun anew.
func (m *memory) load(file string, log *slog.Logger) {
	m.costs, m.file, m.saved = make(map[costOf]*recent), file, quota.SystemClock{}.Now()
	if file == "" {
		return
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var read memoryFile
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err == nil && read.Form != memoryForm {
		err = errors.New("it has another form")
	}
	if err != nil {
		log.Warn("what calls have cost is learned anew, because it cannot be read", "file", file, "error", err.Error())
		return
	}
	for _, c := range read.Costs {
		if c.Cost.sound() && len(m.costs) < mostLearned {
			m.costs[c.Of] = c.Cost
		}
	}
}

// recall returns the units that a share of the recent calls, in percent, stayed within, or
// their mean if that is more. It returns false if too few are known.
func (m *memory) recall(of costOf, share int) (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.costs[of]
	if c == nil || c.Seen < enoughCalls {
		return 0, false
	}
	return c.within(share), true
}

func (m *memory) learn(of costOf, units int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.costs[of]
	if c == nil {
		if len(m.costs) >= mostLearned {
			for other := range m.costs {
				delete(m.costs, other)
				break
			}
		}
		c = &recent{}
		m.costs[of] = c
	}
	c.add(units)
	m.dirty = true
}

func (m *memory) due() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.file != "" && m.dirty && quota.SystemClock{}.Now().Sub(m.saved) >= saveEvery
}

// save writes the file, whole or not at all.
func (m *memory) save() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == "" || !m.dirty {
		return nil
	}
	m.saved = quota.SystemClock{}.Now() // also if it fails: not at every call
	all := memoryFile{Form: memoryForm}
	for of, cost := range m.costs {
		all.Costs = append(all.Costs, learnedCost{of, cost})
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(m.file), ".costs-*") // readable by its owner only
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), m.file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	m.dirty = false
	return nil
}
