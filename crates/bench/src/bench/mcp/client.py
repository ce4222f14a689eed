# Calls of a tool server by the Python SDK. Prints a JSON array of milliseconds.
import asyncio, contextlib, json, sys, time

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

kind, count, words = sys.argv[1], int(sys.argv[2]), sys.argv[3:]


@contextlib.asynccontextmanager
async def opened():
    if kind == "http":
        way = streamable_http_client(words[0])
    else:
        way = stdio_client(StdioServerParameters(command=words[0], args=words[1:]))
    async with way as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            await session.list_tools()
            yield session


async def hold(begun, ready, done):
    async with opened():
        ready.append(time.perf_counter() - begun)
        await done.wait()


async def main():
    took = []
    if kind == "start":
        begun, ready, done = time.perf_counter(), [], asyncio.Event()
        tasks = [asyncio.create_task(hold(begun, ready, done)) for _ in range(count)]
        while len(ready) < count:
            # One that has ended has failed, and none of the others will say so.
            for ended in (task for task in tasks if task.done()):
                ended.result()
            await asyncio.sleep(0.001)
        took.append(max(ready) * 1000)
        done.set()
        await asyncio.gather(*tasks, return_exceptions=True)
    else:
        async with opened() as session:
            for _ in range(count):
                begun = time.perf_counter()
                await session.call_tool("echo", {"message": "hello"})
                took.append((time.perf_counter() - begun) * 1000)
    print(json.dumps(took))


asyncio.run(main())
