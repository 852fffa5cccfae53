"""Reserves a call on a shared ledger before it is made. It needs nothing but Python."""
import json, os, sys, urllib.error, urllib.request

URL = os.environ.get("INGESTOR_URL", "http://127.0.0.1:8080")
TOKEN = os.environ["INGESTOR_TOKEN"]


def ask(route, **body):
    """Returns the status and what the ledger says: of POST /v1/reserve, settle or release."""
    request = urllib.request.Request(URL + "/v1/" + route, json.dumps(body).encode(), {"Authorization": "Bearer " + TOKEN})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as answer:
        return answer.code, json.load(answer)


if __name__ == "__main__":
    status, verdict = ask("reserve", method=sys.argv[1], job="python")
    if status != 200:  # 429 and 503: come again; 422: not as it stands
        sys.exit(f"{status}: {verdict['detail']}")
    print(f"make the call: {verdict['used']} of {verdict['limit']} are used in {verdict['window']}")
    # ask("settle", token=verdict["token"], units=2) if it cost something else,
    # ask("release", token=verdict["token"]) if it provably never left; else it stands as spent
