"""An agent's host: it starts a tool server, reserves units, and then does not end by itself."""
import json
import subprocess
import sys

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def send(message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()


def ask(number, method, params):
    send({"id": number, "method": method, "params": params})
    while True:
        answer = json.loads(server.stdout.readline())
        if answer.get("id") == number:
            return answer["result"]


ask(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent.py", "version": "1"}})
send({"method": "notifications/initialized"})
done = ask(2, "tools/call", {"name": "reserve", "arguments": {"method": "videos.list"}})
wrong = ask(3, "tools/call", {"name": "reserve", "arguments": {"method": 7}})
send({"id": 4, "method": "tools/call", "params": {"name": "reserve", "arguments": {"units": {"units": 5}, "wait": 100000}}})
ask(5, "tools/call", {"name": "quota", "arguments": {}})  # meanwhile the call waits
print(json.dumps({"server": server.pid, "reserved": done["structuredContent"], "wrong": wrong}), flush=True)
server.wait()
