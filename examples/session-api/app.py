"""A web back end with one berth session for each chat: six routes on berth's Python client.

A message names its chat. The session is made with the first message, under a key, so of any number of first messages
one makes it and the others find it; berth gives their texts to its agent one at a time, in the order it accepted them.

    BERTH_URL=http://127.0.0.1:7070 BERTH_TOKEN=… uvicorn app:app
"""

import os
from typing import Annotated

from berth_client import AuthenticatedClient
from berth_client.api.sessions import archive_session, create_session, get_session, list_sessions, stop_session
from berth_client.api.sessions import transcript
from berth_client.api.turns import send_turn
from berth_client.models import ArchiveSession, CreateSession, NewTurn, StopSession
from fastapi import FastAPI, Header, Response
from pydantic import BaseModel

AGENT = os.environ.get("AGENT", "claude")
# The longest time that a message waits for its turn. Then it is withdrawn, will not run, and the client hears 429.
CEILING_MS = int(os.environ.get("CEILING_MS", "30000"))

app = FastAPI()
berth = AuthenticatedClient(base_url=os.environ["BERTH_URL"], token=os.environ["BERTH_TOKEN"], timeout=None)


class Message(BaseModel):
    text: str


def passed_on(answer):
    """berth's answer is the client's answer: status, problem and all."""
    kept = {name: answer.headers[name] for name in ("content-type", "retry-after") if name in answer.headers}
    return Response(answer.content, int(answer.status_code), kept)


@app.post("/chats/{chat}/messages")
async def post_message(chat: str, message: Message, idempotency_key: Annotated[str | None, Header()] = None):
    new = CreateSession(name=chat, agent=AGENT)
    made = await create_session.asyncio_detailed(client=berth, body=new, idempotency_key=f"chat-{chat}")
    if made.status_code >= 300:
        return passed_on(made)
    turn = NewTurn(text=message.text, wait=True, max_wait_ms=CEILING_MS)
    key = {"idempotency_key": idempotency_key} if idempotency_key else {}
    return passed_on(await send_turn.asyncio_detailed(chat, client=berth, body=turn, **key))


@app.get("/chats/{chat}/messages")
async def get_messages(chat: str):
    return passed_on(await transcript.asyncio_detailed(chat, client=berth))


@app.get("/chats")
async def list_chats():
    return passed_on(await list_sessions.asyncio_detailed(client=berth))


@app.get("/chats/{chat}")
async def get_chat(chat: str):
    return passed_on(await get_session.asyncio_detailed(chat, client=berth))


@app.post("/chats/{chat}/stop")
async def stop_chat(chat: str):
    return passed_on(await stop_session.asyncio_detailed(chat, client=berth, body=StopSession()))


@app.delete("/chats/{chat}")
async def archive_chat(chat: str):
    """Nothing is deleted: a chat that is put away can be restored."""
    end_first = ArchiveSession(stop=True)
    return passed_on(await archive_session.asyncio_detailed(chat, client=berth, body=end_first))
