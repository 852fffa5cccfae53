package sqlitefile

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestADiskThatFails is not a full one, so nobody waits for room.
func TestADiskThatFails(t *testing.T) {
	for errno, full := range map[syscall.Errno]bool{syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EIO: false} {
		err := fmt.Errorf("open: %w", &os.PathError{Op: "mkdir", Path: "state", Err: errno})
		if Full(err) != full {
			t.Errorf("full is %v: %v", !full, err)
		}
		if told := numbers.Fault("open", "x.db", err); strings.Contains(told.Error(), "the disk is full; ") != full {
			t.Errorf("it says: %v", told)
		}
	}
}
