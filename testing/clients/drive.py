"""A client that openapi-python-client made from `berth openapi`, driven against a running gateway.

Every step is one a foreign program would take; answers are the client's own types. Fails by an
assertion, and prints what it saw.
"""

import os

from berth_client import AuthenticatedClient
from berth_client.api.events import list_events
from berth_client.api.sessions import create_session, delete_session, get_session, list_sessions, stop_session
from berth_client.api.tokens import whoami
from berth_client.api.turns import cancel_turn, get_result, get_turn, send_turn, wait
from berth_client.models import (
    CreatedSession,
    CreateSession,
    NewTurn,
    Problem,
    TurnReceipt,
    SessionList,
    SessionStatus,
    StopSession,
    TurnView,
    SessionWaitResult,
    WaitRequest,
)

URL = os.environ["BERTH_URL"]
client = AuthenticatedClient(base_url=URL, token=os.environ["BERTH_TOKEN"])


def checked(answer, status, kind):
    assert answer.status_code == status, (answer.status_code, answer.content)
    assert isinstance(answer.parsed, kind), (type(answer.parsed), answer.content)
    return answer.parsed


def problem(answer, status, code):
    told = checked(answer, status, Problem)
    assert (told.status, told.code) == (status, code), told
    assert told.title and told.type_ == f"urn:berth:problem:{code}", told
    return told


# The identity of the token, and that there are no sessions yet.
me = whoami.sync(client=client)
assert me.scope == "admin" and me.name == "python", me
before = checked(list_sessions.sync_detailed(client=client), 200, SessionList)
assert before.sessions == [], before

# A session with an agent that takes turns; asked for twice with one key it is one.
new = CreateSession(name="py", agent="fake", tags=["client"])
made = checked(create_session.sync_detailed(client=client, body=new, idempotency_key="make"), 201, CreatedSession)
again = checked(create_session.sync_detailed(client=client, body=new, idempotency_key="make"), 200, CreatedSession)
assert made.session.id == again.session.id and not made.repeated and again.repeated
listed = checked(list_sessions.sync_detailed(client=client, tag="client"), 200, SessionList)
assert [one.name for one in listed.sessions] == ["py"], listed
assert listed.sessions[0].evidence_age_ms >= 0
known = checked(get_session.sync_detailed("py", client=client), 200, SessionStatus)
assert known.id == made.session.id and known.turns is not None

# A turn, sent twice with one key: one turn.
first = checked(send_turn.sync_detailed("py", client=client, body=NewTurn(text="hello"), idempotency_key="t1"), 202, TurnReceipt)
second = checked(send_turn.sync_detailed("py", client=client, body=NewTurn(text="hello"), idempotency_key="t1"), 202, TurnReceipt)
assert (first.number, second.number) == (1, 1) and not first.repeated and second.repeated

# Reusing the key with another text is a conflict, with a type.
reused = send_turn.sync_detailed("py", client=client, body=NewTurn(text="other"), idempotency_key="t1")
problem(reused, 409, "refused")

# Waiting, and the result.
waited = checked(wait.sync_detailed("py", client=client, body=WaitRequest(for_="idle", timeout_ms=60_000)), 200, SessionWaitResult)
assert waited.session.id == known.id
result = checked(get_result.sync_detailed("py", 1, client=client), 200, TurnView)
assert result.answer == "ECHO: hello" and result.state == "done" and not result.in_progress, result

# Events, in two pages that meet.
page = list_events.sync("py", client=client, after=0, limit=2)
assert [event.seq for event in page] == [1, 2], page
rest = list_events.sync("py", client=client, after=2)
assert [event.seq for event in rest] == list(range(3, 3 + len(rest))) and rest, rest

# A turn that waits behind one that runs is cancelled, and then cannot be cancelled again.
gate = os.path.join(os.environ["BERTH_LAB"], "python-gate")
running = checked(send_turn.sync_detailed("py", client=client, body=NewTurn(text=f"wait-file:{gate} slow")), 202, TurnReceipt)
waiting = checked(send_turn.sync_detailed("py", client=client, body=NewTurn(text="never")), 202, TurnReceipt)
cancelled = checked(cancel_turn.sync_detailed("py", waiting.number, client=client), 200, TurnView)
assert cancelled.state == "cancelled" and not cancelled.in_progress, cancelled
problem(cancel_turn.sync_detailed("py", waiting.number, client=client), 409, "refused")
broken_off = checked(cancel_turn.sync_detailed("py", running.number, client=client), 200, TurnView)
assert broken_off.state in ("cancelled", "interrupted"), broken_off

# Things that do not exist, and input that is not valid.
problem(get_session.sync_detailed("nobody", client=client), 404, "not-found")
problem(get_turn.sync_detailed("py", 99, client=client), 404, "not-found")
problem(send_turn.sync_detailed("py", client=client, body=NewTurn(text="")), 400, "usage")
problem(delete_session.sync_detailed("py", client=client), 428, "needs-yes")

# A client with a wrong token.
stranger = AuthenticatedClient(base_url=URL, token="berth_wrong")
problem(list_sessions.sync_detailed(client=stranger), 401, "not-allowed")

stopped = checked(stop_session.sync_detailed("py", client=client, body=StopSession(grace_ms=0)), 200, SessionStatus)
assert stopped.state == "stopped", stopped
print("python: all well")
