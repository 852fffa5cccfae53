"""A tap as Singer has them: it writes the chart of a region page by page, and a STATE after each."""
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

base, token, state = os.environ["HEADROOM_PROXY"] + "/youtube", os.environ["HEADROOM_TOKEN"], {}
if "YOUTUBE_API_KEY" in os.environ:
    sys.exit("the key is in the environment")
with open(os.environ["HEADROOM_STATE"] + ".pid", "w") as file:
    file.write(str(os.getpid()))
if os.path.exists(os.environ["HEADROOM_STATE"]):
    with open(os.environ["HEADROOM_STATE"]) as file:
        state = json.load(file)


def write(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


while not state.get("done"):
    query = {"part": "id", "chart": "mostPopular", "regionCode": "US", "maxResults": 10, "pageToken": state.get("page", "")}
    address = base + "/youtube/v3/videos?" + urllib.parse.urlencode(query)
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers={"X-Goog-Api-Key": token})) as answer:
            page = json.load(answer)
    except urllib.error.HTTPError as error:
        sys.exit(f"{error.code}: {error.read()}")
    for video in page["items"]:
        write({"type": "RECORD", "stream": "videos", "record": {"id": video["id"]}})
    state = {"page": page["nextPageToken"]} if "nextPageToken" in page else {"done": True}
    write({"type": "STATE", "value": state})
