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
    AcceptElicitationResponse,
    AgentMessageChunk,
    AllowedOutcome,
    ClientCapabilities,
    CreateTerminalResponse,
    DeniedOutcome,
    Implementation,
    ReadTextFileResponse,
    RequestPermissionResponse,
    TerminalOutputResponse,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
    WaitForTerminalExitResponse,
)

# Far above what the whole story needs, so that a missing message ends the program.
DEADLINE_SECONDS = 40


class Peer(Client):
    """Records what it is told and answers permission questions with an option of one kind."""

    def __init__(self):
        self.choice = None
        self.updates = []
        self.told = asyncio.Event()
        self.is_asked, self.is_withdrawn = asyncio.Event(), asyncio.Event()

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        if self.choice is None:
            self.is_asked.set()
            await self.is_withdrawn.wait()
            outcome = DeniedOutcome(outcome="cancelled")
            return RequestPermissionResponse(outcome=outcome)
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


class Editor(Peer):
    """Has files, a terminal and forms, and notes what is done with them."""

    def __init__(self, plan):
        super().__init__()
        self.plan = plan
        self.choice = "allow_once"
        self.written, self.commands, self.asked, self.released = {}, [], [], 0

    async def read_text_file(self, session_id, path, line=None, limit=None, **kwargs):
        assert Path(path).name == self.plan["open"], "only what is open is read"
        return ReadTextFileResponse(content=self.plan["buffer"])

    async def write_text_file(self, session_id, path, content, **kwargs):
        self.written[Path(path).name] = content

    async def create_terminal(self, session_id, command, args=None, **kwargs):
        self.commands.append([command, *args])
        return CreateTerminalResponse(terminal_id=f"terminal-{len(self.commands)}")

    async def wait_for_terminal_exit(self, session_id, terminal_id, **kwargs):
        return WaitForTerminalExitResponse(exit_code=0)

    async def terminal_output(self, session_id, terminal_id, **kwargs):
        return TerminalOutputResponse(output=self.plan["printed"], truncated=False)

    async def release_terminal(self, session_id, terminal_id, **kwargs):
        self.released += 1

    async def create_elicitation(self, message, mode, **kwargs):
        self.asked.append(message)
        answer = {"answer": self.plan["answer"]}
        return AcceptElicitationResponse(action="accept", content=answer)


@asynccontextmanager
async def connected(plan, peer):
    """Connects and initializes; takes the connection down again at the end."""
    if "url" in plan:
        transport = await over_network(plan["url"], {"Authorization": f"Bearer {plan['token']}"})
        async with connect_to_agent(peer, transport, use_unstable_protocol=True) as agent:
            await introduce(agent, offered(plan))
            yield agent
    else:
        async with spawn_agent_process(
            peer, *plan["command"], use_unstable_protocol=True
        ) as (agent, process):
            await introduce(agent, offered(plan))
            yield agent
        assert process.returncode == 0, "the agent ends well when its input ends"


async def over_network(url, headers):
    if url.startswith("ws"):
        from acp.ws.client import create_websocket_stream

        return await create_websocket_stream(url, headers=headers)
    from acp.http.client import create_http_stream

    return create_http_stream(url, headers=headers)


def offered(plan):
    """What the client can do, as the plan wants it."""
    if "editor" not in plan:
        return ClientCapabilities()
    wanted = {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "elicitation": {"form": {}},
    }
    return ClientCapabilities.model_validate(wanted)


async def introduce(agent, capabilities):
    greeting = await agent.initialize(
        protocol_version=PROTOCOL_VERSION,
        client_capabilities=capabilities,
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

    peer.choice = None
    turn = asyncio.create_task(ask("write, or wait"))
    await peer.is_asked.wait()
    await agent.cancel(session_id=session)
    peer.is_withdrawn.set()
    assert await turn == "cancelled"
    assert not (workspace / plan["open"]).exists()
    assert peer.last_status() == "failed"
    done("cancel ends a turn whose question is open")
    return session, "".join(said)


async def edit(plan):
    """One turn that works on the editor's desk instead of the server's disk."""
    wanted = plan["editor"]
    peer = Editor(wanted)
    async with connected(plan, peer) as agent:
        session = (await agent.new_session(cwd=plan["workspace"], mcp_servers=[])).session_id
        answer = await agent.prompt(session_id=session, prompt=[text_block("edit")])
        assert answer.stop_reason == "end_turn"
        assert peer.written == {wanted["copy"]: wanted["copied"]}, peer.written
        done("reads see what is not saved, and writes go to the client")
        assert peer.commands == [["bash", "-c", wanted["command"]]], peer.commands
        assert peer.released == 1
        done("a command runs in the client's terminal")
        assert peer.asked == [wanted["question"]], peer.asked
        await peer.until(lambda: peer.text_of(AgentMessageChunk).endswith(wanted["answer"]))
        done("a question is shown as a form")


async def main(plan):
    if "editor" in plan:
        return await edit(plan)
    peer = Peer()
    async with connected(plan, peer) as agent:
        session, said = await talk(plan, peer, agent)

    peer = Peer()
    async with connected(plan, peer) as agent:
        await agent.load_session(cwd=plan["workspace"], session_id=session, mcp_servers=[])
        # The SDK hands updates to the client in tasks of their own: they may still be running.
        await peer.until(lambda: len(peer.text_of(AgentMessageChunk)) >= len(said))
        assert peer.text_of(UserMessageChunk) == "hellowritewrite againcountwrite, or wait"
        assert peer.text_of(AgentMessageChunk) == said
        done("session/load replays the history")

        peer.updates = []
        answer = await agent.prompt(session_id=session, prompt=[text_block("hello again")])
        assert answer.stop_reason == "end_turn"
        await peer.until(lambda: peer.text_of(AgentMessageChunk).endswith(plan["hello"]))
        done("the session goes on")


asyncio.run(asyncio.wait_for(main(json.loads(sys.argv[1])), DEADLINE_SECONDS))
