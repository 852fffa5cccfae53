"""Calls an API through a proxy with the standard library alone, until it is refused."""
import json
import os
import sys
import urllib.error
import urllib.request

base, token = sys.argv[1], os.environ["API_KEY"]
granted = 0
while True:
    request = urllib.request.Request(base + "/youtube/v3/videos?part=id&id=abc", headers={"X-Goog-Api-Key": token})
    try:
        with urllib.request.urlopen(request) as answer:
            if json.load(answer)["kind"] != "youtube#videoListResponse":
                sys.exit("another answer")
            granted += 1
    except urllib.error.HTTPError as error:
        problem = json.load(error)["error"]
        if error.code != 429 or problem["status"] != "RESOURCE_EXHAUSTED" or int(error.headers["Retry-After"]) < 60:
            sys.exit(f"{error.code}: {problem}")
        break
print(granted)
