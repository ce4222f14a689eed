#!/usr/bin/python3
"""A language server that behaves as the file `mood` in its directory says: well, or not at all.

It answers with what it was asked, so that a test sees how positions and documents arrive. Each start
adds a line with its process number to the file `starts`.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

WORKSPACE = pathlib.Path.cwd()
OUT = sys.stdout.buffer


def mood():
    try:
        return (WORKSPACE / "mood").read_text().strip()
    except OSError:
        return "good"


def read():
    length = None
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            sys.exit(0)
        if line == b"\r\n":
            break
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return json.loads(sys.stdin.buffer.read(length))


def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    OUT.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    OUT.flush()


def location(uri, line=0, character=0):
    start = {"line": line, "character": character}
    return {"uri": uri, "range": {"start": start, "end": start}}


def lies(uri):
    folder = uri.rsplit("/", 1)[0]
    return [
        location("file:///etc/passwd"),
        location(f"{folder}/../data/token"),
        location(f"{folder}/link/secret"),
        location(f"{folder}/gone.py", 4_000_000_000, 4_000_000_000),
        location(f"{folder}/%00%1b%5b31m"),
        location("file://elsewhere/etc/passwd"),
        location("http://127.0.0.1/x"),
        location("not a uri \x1b[31m\n"),
        location(""),
    ]


def misbehave(request, how):
    """Does what is no answer; says whether one follows all the same."""
    if how == "hang":
        time.sleep(600)
    elif how == "die":
        print("out of cheese", file=sys.stderr, flush=True)
        os._exit(3)
    elif how == "flood":
        while True:
            send({"method": "window/logMessage", "params": {"message": "x" * 100_000}})
    elif how == "ask endlessly":
        while True:
            send({"id": 1, "method": "workspace/configuration", "params": {"items": [{}] * 256}})
    elif how == "large":
        OUT.write(b"Content-Length: 100000000\r\n\r\n")
        for _ in range(1000):
            OUT.write(b"x" * 100_000)
        OUT.flush()
        time.sleep(600)
    elif how == "garbage":
        OUT.write(b"Hello, I am your language server.\n" * 1000)
        OUT.flush()
        time.sleep(600)
    elif how == "not json":
        OUT.write(b"Content-Length: 5\r\n\r\n{{{{{")
        OUT.flush()
        time.sleep(600)
    elif how == "wrong form":
        send({"id": request["id"], "result": {"places": "everywhere"}})
        return False
    elif how == "refuse":
        send({"id": request["id"], "error": {"code": -32603, "message": "no \x1b[31m" + "x" * 99_999}})
        return False
    elif how == "wrong ids":
        for wrong in (request["id"] + 1, str(request["id"]), None, -1, [1], {"a": 1}):
            send({"id": wrong, "result": [location("file:///wrong")]})
    elif how == "ask back":
        for number, method in enumerate(["workspace/applyEdit", "window/showDocument"]):
            send({"id": f"s{number}", "method": method, "params": {}})
            (WORKSPACE / f"reply{number}").write_text(json.dumps(read()))
    elif how == "children":
        child = "import time; open('child', 'w').write(str(__import__('os').getpid())); time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", child, str(WORKSPACE)], start_new_session=True)
    return True


def main():
    with open(WORKSPACE / "starts", "a") as starts:
        print(os.getpid(), file=starts)
    text = {}
    while True:
        message = read()
        method, params = message.get("method"), message.get("params", {})
        document = params.get("textDocument", {}).get("uri", "") if params else ""
        how = mood()
        if method == "textDocument/didOpen":
            text[document] = params["textDocument"]["text"]
            if how == "says it once":
                told = {"uri": document, "diagnostics": [{**location(document), "message": "old"}]}
                send({"method": "textDocument/publishDiagnostics", "params": told})
        elif method == "textDocument/didChange":
            text[document] = params["contentChanges"][0]["text"]
        elif method == "workspace/didChangeWatchedFiles":
            with open(WORKSPACE / "changes", "a") as changes:
                for change in params["changes"]:
                    print(change["uri"].rsplit("/", 1)[1], change["type"], file=changes)
        elif method == "exit":
            sys.exit(0)
        if "id" not in message:
            continue
        if method == "initialize":
            if how == "hang at start":
                time.sleep(600)
            provided = ["definition", "references", "documentSymbol", "hover"]
            abilities = {f"{name}Provider": True for name in provided}
            if how == "utf-8":
                abilities["positionEncoding"] = "utf-8"
            if how == "few":
                abilities = {}
            send({"id": message["id"], "result": {"capabilities": abilities}})
        elif method == "shutdown":
            send({"id": message["id"], "result": None})
        elif misbehave(message, how):
            position = params.get("position", {"line": 0, "character": 0})
            found = [location(document, position["line"], position["character"])]
            if how == "lies":
                found = lies(document)
            elif how == "many":
                found = [location(document, line) for line in range(50_000)]
            elif method == "textDocument/hover":
                found = {"contents": text.get(document, "")}
            elif method == "textDocument/documentSymbol":
                start = {"start": position, "end": position}
                found = [{"name": "s3cret", "kind": 12, "range": start, "selectionRange": start}]
            send({"id": message["id"], "result": found})


main()
