"""The official Python SDK as a client of Fastness.

The plan, one JSON argument, says where the agent is and what its scripted model will do; every
step that is as it should be prints a line, the first that is not ends the program with an error.
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from acp import PROTOCOL_VERSION, Client, connect_to_agent, spawn_agent_process, text_block
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    ClientCapabilities,
    Implementation,
    RequestPermissionResponse,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
)

# Far above what the whole story needs, so that a missing message ends the program.
DEADLINE_SECONDS = 40


class Peer(Client):
    """Records what it is told and answers permission questions with an option of one kind."""

    def __init__(self):
        self.choice = None
        self.updates = []
        self.told = asyncio.Event()

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        chosen = next(option for option in options if option.kind == self.choice)
        outcome = AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append(update)
        self.told.set()

    def text_of(self, kind):
        return "".join(update.content.text for update in self.updates if isinstance(update, kind))

    def last_status(self):
        calls = [u for u in self.updates if isinstance(u, (ToolCallStart, ToolCallProgress))]
        return calls[-1].status

    async def until(self, ready):
        while not ready():
            self.told.clear()
            await self.told.wait()


@asynccontextmanager
async def connected(plan, peer):
    """Connects and initializes; takes the connection down again at the end."""
    if "url" in plan:
        transport = await over_network(plan["url"], {"Authorization": f"Bearer {plan['token']}"})
        async with connect_to_agent(peer, transport) as agent:
            await introduce(agent)
            yield agent
    else:
        async with spawn_agent_process(peer, *plan["command"]) as (agent, process):
            await introduce(agent)
            yield agent
        assert process.returncode == 0, "the agent ends well when its input ends"


async def over_network(url, headers):
    if url.startswith("ws"):
        from acp.ws.client import create_websocket_stream

        return await create_websocket_stream(url, headers=headers)
    from acp.http.client import create_http_stream

    return create_http_stream(url, headers=headers)


async def introduce(agent):
    greeting = await agent.initialize(
        protocol_version=PROTOCOL_VERSION,
        client_capabilities=ClientCapabilities(),
        client_info=Implementation(name="python-peer", version="1"),
    )
    assert greeting.protocol_version == PROTOCOL_VERSION
    assert greeting.agent_capabilities.load_session


def done(step):
    print(f"ok: {step}", flush=True)


async def talk(plan, peer, agent):
    """Everything that one connection does; gives the session and what the agent said."""
    workspace = Path(plan["workspace"])
    done("initialize")
    session = (await agent.new_session(cwd=str(workspace), mcp_servers=[])).session_id
    done("session/new")
    said = []

    async def ask(text):
        peer.updates = []
        answer = await agent.prompt(session_id=session, prompt=[text_block(text)])
        said.append(peer.text_of(AgentMessageChunk))
        return answer.stop_reason

    assert await ask("hello") == "end_turn"
    assert sum(isinstance(update, AgentMessageChunk) for update in peer.updates) > 1
    assert said[0].endswith(plan["hello"]), said
    done("a prompt streams its answer")

    peer.choice = "allow_once"
    assert await ask("write") == "end_turn"
    assert (workspace / plan["allowed"]).read_text() == plan["content"]
    assert peer.last_status() == "completed"
    done("an allowed tool call runs")

    peer.choice = "reject_once"
    assert await ask("write again") == "end_turn"
    assert not (workspace / plan["rejected"]).exists()
    assert peer.last_status() == "failed"
    done("a rejected tool call does not run")

    turn = asyncio.create_task(ask("count"))
    await peer.until(lambda: plan["endless"] in peer.text_of(AgentMessageChunk))
    await agent.cancel(session_id=session)
    assert await turn == "cancelled"
    done("cancel ends the turn")
    return session, "".join(said)


async def main(plan):
    peer = Peer()
    async with connected(plan, peer) as agent:
        session, said = await talk(plan, peer, agent)

    peer = Peer()
    async with connected(plan, peer) as agent:
        await agent.load_session(cwd=plan["workspace"], session_id=session, mcp_servers=[])
        # The SDK hands updates to the client in tasks of their own: they may still be running.
        await peer.until(lambda: len(peer.text_of(AgentMessageChunk)) >= len(said))
        assert peer.text_of(UserMessageChunk) == "hellowritewrite againcount"
        assert peer.text_of(AgentMessageChunk) == said
        done("session/load replays the history")

        peer.updates = []
        answer = await agent.prompt(session_id=session, prompt=[text_block("hello again")])
        assert answer.stop_reason == "end_turn"
        await peer.until(lambda: peer.text_of(AgentMessageChunk).endswith(plan["hello"]))
        done("the session goes on")


asyncio.run(asyncio.wait_for(main(json.loads(sys.argv[1])), DEADLINE_SECONDS))
