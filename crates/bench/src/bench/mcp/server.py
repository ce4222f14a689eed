# The smallest tool server there is: it answers at once, so that what is measured is the client.
import json, sys

for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if id is None:
        continue
    if method == "initialize":
        said = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "small", "version": "1"}}
    elif method == "tools/list":
        said = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        said = {"content": [{"type": "text", "text": asked["params"]["arguments"]["message"]}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "?"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": said}), flush=True)
