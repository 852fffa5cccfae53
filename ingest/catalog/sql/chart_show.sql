-- Makes the chart that was being fetched the complete one. Args: its row.
UPDATE charts SET complete = 1 WHERE id = ?1
