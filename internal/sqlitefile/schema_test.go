package sqlitefile

import "testing"

// A reader that looks while another process creates the file sees a mix of before and
// after.
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
