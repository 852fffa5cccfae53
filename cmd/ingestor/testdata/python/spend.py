"""Reserves unit by unit until it is refused, each of them twice as if an answer had been lost."""
import sys
import uuid

from reserve import ask

granted = 0
while True:
    call = {"pool": "units", "job": "python", "id": uuid.uuid4().hex}
    status, verdict = ask("reserve", **call)
    if status == 429 and verdict["code"] == "refused" and verdict["retry_after"] > 0:
        break
    if status != 200 or verdict["repeat"]:
        sys.exit(f"{status}: {verdict}")
    status, again = ask("reserve", **call)
    if status != 200 or not again["repeat"] or again["token"] != verdict["token"]:
        sys.exit(f"again {status}: {again}")
    granted += 1
print(granted)
