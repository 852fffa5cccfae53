"""Reserves units on a shared ledger before a call. Needs no packages."""
import json, os, sys, urllib.error, urllib.request

URL = os.environ.get("INGESTOR_URL", "http://127.0.0.1:8080")
TOKEN = os.environ["INGESTOR_TOKEN"]


def ask(route, **body):
    """Sends POST /v1/reserve, settle or release. Returns the status and the JSON of the answer."""
    request = urllib.request.Request(URL + "/v1/" + route, json.dumps(body).encode(), {"Authorization": "Bearer " + TOKEN})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as answer:
        return answer.code, json.load(answer)


if __name__ == "__main__":
    status, verdict = ask("reserve", method=sys.argv[1], job="python")
    if status != 200:  # 429 and 503: retry later; 422: change the request
        sys.exit(f"{status}: {verdict['detail']}")
    print(f"make the call: {verdict['used']} of {verdict['limit']} are used in {verdict['window']}")
    # After the call: ask("settle", token=verdict["token"], units=2) if it cost something else,
    # ask("release", token=verdict["token"]) if it was provably never sent. Otherwise it counts as spent.
