package sqlitefile

import "testing"

// Who looks while another process makes the file sees some of it as it was before, and
// the rest as it is now.
func TestAFileThatIsBeingMadeIsNotOfAnotherProgram(t *testing.T) {
	k := &Kind{Application: 7, Steps: []string{""}}
	before := map[string]int64{}
	after := map[string]int64{"PRAGMA user_version": 1, "PRAGMA application_id": 7, "SELECT count(*) FROM sqlite_schema": 3}
	for made := range len(after) + 1 {
		asked := 0
		m, err := readMarks(func(query string) (int64, error) {
			answers := before
			if asked >= made {
				answers = after
			}
			asked++
			return answers[query], nil
		})
		if err != nil || asked != len(after) {
			t.Fatalf("%d questions, %v", asked, err)
		}
		if err := k.refuse(m); err != nil {
			t.Errorf("made after %d questions: %v", made, err)
		}
	}
}
