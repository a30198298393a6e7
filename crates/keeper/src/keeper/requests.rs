//! Clients: accepting them, reading them, answering them.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use berth_api::frame::{self, Kind};
use berth_api::message::{Answer, Call, Notice, Numbered, PROTOCOL, Request, Role, Size};
use berth_api::status::Status;
use berth_api::turn::TurnPage;
use berth_api::{Code, Problem, problem, redact, trace};
use berth_core::{Command, Deed, Fence, Name, Phase, Refusal, SessionId, Target, Writer};
use berth_host::{clock, socket};
use berth_journal::Committed;
use berth_store::history::{History, Stored};
use berth_store::home::Home;
use berth_store::{killpoint, store};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use super::{Keeper, STATUS_DELAY_MS, actor_of};
use crate::audit::{self, AuditEvent};
use crate::callers::{self, Peer, Seen};
use crate::clients::{Attached, Client, UNFINISHED_BYTES};
use crate::owner::Input;
use crate::place;

/// How many may be attached, watch or wait at once.
const MAX_LASTING: usize = 64;
/// How much text an answer has: the last event or turn of it may go beyond.
const MOST_ANSWER_BYTES: usize = 1 << 20;
/// How much text one turn has in an answer: JSON may make six bytes of one, and a frame has its limit.
const MOST_TURN_BYTES: usize = 2 << 20;
/// How many may be connected at once: room is left for those who ask one thing and go.
const MAX_CLIENTS: usize = 96;

/// Tags as somebody wrote them.
pub(super) fn tags_of(texts: &[String]) -> Result<Vec<Name>, Problem> {
    let tag = |text: &String| {
        Name::parse(text)
            .map_err(|bad| Problem::new(Code::Usage, format!("`{text}` is not a valid tag: {bad}")))
    };
    texts.iter().map(tag).collect()
}

/// True for a request that is answered from the state as it is, and leaves no trace in the journal.
fn needs_no_journal(client: &Client, payload: &[u8]) -> bool {
    let writes = client.attached.is_some_and(|attached| attached.fence.is_some());
    match serde_json::from_slice::<Call>(payload).map(|call| call.request) {
        Ok(Request::Attach { role, .. }) => role == Role::Observer && !writes,
        Ok(
            Request::Status
            | Request::Screen { .. }
            | Request::Resize { .. }
            | Request::Turn { .. }
            | Request::Turns { .. }
            | Request::Events { .. }
            | Request::Watch { from: u64::MAX },
        ) => true,
        Ok(_) | Err(_) => false,
    }
}

impl Keeper {
    pub(super) fn accept(&mut self) {
        // While a batch is on its way, clients that left are still counted: the next ones wait.
        while !self.writing.is_busy || self.has_room_for_clients() {
            let Ok((stream, _)) = self.listener.accept() else { return };
            let ours = rustix::process::geteuid().as_raw();
            // Another account has no business here, whatever the file's mode says; root is root.
            let allowed = socket::peer(&stream).is_ok_and(|peer| peer.uid == ours || peer.uid == 0);
            if !allowed {
                continue;
            }
            if self.clients.len() >= MAX_CLIENTS && !self.writing.is_busy {
                self.let_go_of_the_gone();
            }
            if self.clients.len() < MAX_CLIENTS {
                let _ = self.add_client(stream);
            } else {
                let answer = Answer::Problem { problem: self.too_many(MAX_CLIENTS) };
                let answer = serde_json::to_vec(&answer).expect("an answer is plain data");
                // Small enough for the buffer of a new socket; who does not read it is told by its end.
                let _ = stream.set_nonblocking(true);
                let _ = frame::write(&mut &stream, Kind::Answer, &[&answer]);
            }
        }
    }

    pub(super) fn has_room_for_clients(&self) -> bool {
        self.clients.len() < MAX_CLIENTS
    }

    /// Serves those who have hung up, and forgets them. After a keeper stood still, all who gave up on it are in the
    /// queue before the first who did not.
    fn let_go_of_the_gone(&mut self) {
        let keys: Vec<u64> = self.clients.keys().copied().collect();
        let mut looks: Vec<PollFd<'_>> =
            self.clients.values().map(|client| PollFd::new(client, PollFlags::RDHUP)).collect();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // An error means that nobody is known to be gone.
        let _ = poll(&mut looks, Some(&now));
        let is_gone = |look: &PollFd<'_>| look.revents().intersects(PollFlags::RDHUP | PollFlags::HUP);
        let gone: Vec<u64> =
            keys.into_iter().zip(&looks).filter(|(_, look)| is_gone(look)).map(|(key, _)| key).collect();
        for key in gone {
            // First what it said, then its end.
            while self.clients.contains_key(&key) {
                self.answer_calls();
                self.on_client(key, epoll::EventFlags::IN);
            }
        }
    }

    fn too_many(&self, limit: usize) -> Problem {
        let name = self.handle_name();
        if self.is_helper() {
            // Whoever waits for it will have been told soon.
            return Problem::new(Code::Held, format!("helper `{name}` serves {limit} clients already"))
                .hint("try again");
        }
        Problem::new(Code::Full, format!("session `{name}` serves {limit} clients already"))
            .hint("detach some, then try again")
    }

    /// Refuses to be attached to, watched or waited for by more than the limit.
    pub(super) fn room_for_lasting(&self) -> Result<(), Problem> {
        let lasting = |client: &&Client| {
            let waits = client.awaits_end
                || client.awaits_ready
                || client.awaits_agent
                || client.awaits_answer.is_some();
            client.attached.is_some() || client.watches || client.follows.is_some() || waits
        };
        let count = self.clients.values().filter(lasting).count();
        if count < MAX_LASTING { Ok(()) } else { Err(self.too_many(MAX_LASTING)) }
    }

    pub(super) fn add_client(&mut self, stream: UnixStream) -> io::Result<u64> {
        stream.set_nonblocking(true)?;
        let key = self.next_client;
        let actor = actor_of(&stream)?;
        let home = Home::around(&self.dir).ok_or(io::ErrorKind::NotFound)?;
        // Attributed now: the process may have ended by the time its first request is read.
        let peer = Peer::of(&home, &stream)?;
        let client = Client::new(stream, actor, Some(peer));
        epoll::add(&self.epoll, client.as_fd(), epoll::EventData::new_u64(key), epoll::EventFlags::IN)?;
        self.next_client += 1;
        self.clients.insert(key, client);
        Ok(key)
    }

    pub(super) fn on_client(&mut self, key: u64, flags: epoll::EventFlags) {
        let is_heard = |client: &Client| !client.has_call;
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR)
            && self.clients.get(&key).is_some_and(is_heard)
        {
            self.receive(key);
        }
        if flags.contains(epoll::EventFlags::OUT) {
            self.write_now(key);
        }
        self.flush(key);
    }

    /// Reads a client, and does what it wants.
    pub(super) fn receive(&mut self, key: u64) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        let open = client.receive().unwrap_or(false);
        self.on_frames(key);
        if !open {
            return self.drop_client(key);
        }
        self.bound_unfinished();
        self.pause_if_full(key);
    }

    /// What a client sent, up to a request that has to wait.
    fn on_frames(&mut self, key: u64) {
        while let Some(client) = self.clients.get_mut(&key).filter(|client| !client.has_call) {
            match client.next_frame() {
                Ok(Some(frame)) => match frame.kind {
                    Kind::Input => self.on_keys(key, &frame.payload),
                    Kind::Call if self.writing.is_busy && !needs_no_journal(client, &frame.payload) => {
                        client.has_call = true;
                        self.calls.push_back((key, frame.payload));
                    }
                    Kind::Call => {
                        client.has_call = true;
                        self.on_call(key, &frame.payload);
                        self.is_answered(key);
                    }
                    Kind::Answer | Kind::Output | Kind::Screen | Kind::Notice => {
                        return self.drop_client(key);
                    }
                },
                Ok(None) => return,
                Err(_) => return self.drop_client(key),
            }
        }
    }

    fn is_answered(&mut self, key: u64) {
        if let Some(client) = self.clients.get_mut(&key) {
            client.has_call = false;
        }
    }

    /// Answers the requests that arrived while a batch was on its way to the disk. Turns that were sent are one batch:
    /// they are accepted with one sync.
    pub(super) fn answer_calls(&mut self) {
        let (mut sends, mut restarts) = (Vec::new(), Vec::new());
        let calls = std::mem::take(&mut self.calls);
        let keys: Vec<u64> = calls.iter().map(|(key, _)| *key).collect();
        for (key, payload) in calls {
            let (trace, admitted) = self.admitted(key, &payload);
            match admitted {
                Ok(Some(Request::Send { submit })) => sends.push((key, trace, submit)),
                // Last, because a new image knows nothing of the other requests.
                Ok(Some(Request::Restart)) => restarts.push((key, trace)),
                Ok(Some(request)) => {
                    self.send_all(std::mem::take(&mut sends));
                    let answer = self.on_request(key, request);
                    self.reply(key, trace.as_deref(), answer);
                }
                Ok(None) => {}
                Err(problem) => self.reply(key, trace.as_deref(), Err(problem)),
            }
        }
        self.send_all(sends);
        for (key, trace) in restarts {
            let answer = self.on_request(key, Request::Restart);
            self.reply(key, trace.as_deref(), answer);
        }
        for key in keys {
            self.is_answered(key);
            self.flush(key);
            self.on_frames(key);
        }
    }

    /// Disconnects the client with the longest unfinished frame if all of them together are too long. A client that sends
    /// the longest prompt is not the longest while another client hoards.
    fn bound_unfinished(&mut self) {
        let is_here = |(key, _): &(&u64, &Client)| !self.writing.gone.contains(key);
        let here = || self.clients.iter().filter(is_here);
        let total: usize = here().map(|(_, client)| client.unfinished_bytes()).sum();
        if total <= UNFINISHED_BYTES {
            return;
        }
        let longest = here().max_by_key(|(_, client)| client.unfinished_bytes());
        if let Some((&longest, client)) = longest {
            tracing::warn!(
                client = longest,
                pid = client.actor.pid,
                "disconnected: its frame is not finished"
            );
            self.drop_client(longest);
        }
    }

    /// Where a client is, as it may be recorded: see [`place`].
    fn place_of(&mut self, key: u64, claim: &str) -> String {
        let root = self.root().to_owned();
        let Some(client) = self.clients.get_mut(&key) else { return String::new() };
        let pid = client.actor.pid;
        let is_gateway = *client.is_gateway.get_or_insert_with(|| place::is_gateway(&root, pid));
        place::recorded(claim, is_gateway)
    }

    /// Forgets a client. If it was the writer, nobody is, and that is recorded.
    pub(super) fn drop_client(&mut self, key: u64) {
        let leaves_a_trace = |client: &Client| {
            let writes = client.attached.is_some_and(|attached| attached.fence.is_some());
            writes || client.has_call || client.awaits_answer.is_some()
        };
        if self.writing.is_busy && self.clients.get(&key).is_some_and(leaves_a_trace) {
            self.writing.gone.insert(key);
            return;
        }
        let Some(client) = self.clients.remove(&key) else { return };
        self.epoll_delete(&client);
        if let Some(request) = client.awaits_answer {
            self.on_hook_left(request);
        }
        let Some(Attached { fence, .. }) = client.attached else { return };
        // That somebody observed is in no event.
        self.write_status_within(STATUS_DELAY_MS);
        if let Some(fence) = fence {
            self.release_writer(fence);
        }
    }

    fn release_writer(&mut self, fence: Fence) {
        if self.take(vec![Input::Command(Command::ReleaseWriter { fence })]).is_err() {
            self.retry_soon();
        }
    }

    /// Nobody keeps a right to type whose connection is gone.
    pub(super) fn release_absent_writer(&mut self) {
        let Some(writer) = &self.owner.history().session.writer else { return };
        let fence = writer.fence;
        let is_here = |client: &Client| client.attached.is_some_and(|attached| attached.fence == Some(fence));
        if !self.clients.values().any(is_here) {
            self.release_writer(fence);
        }
    }

    fn on_call(&mut self, key: u64, payload: &[u8]) {
        let (trace, admitted) = self.admitted(key, payload);
        let answer = match admitted {
            Ok(Some(Request::Send { submit })) => return self.send_all(vec![(key, trace, submit)]),
            Ok(Some(request)) => self.on_request(key, request),
            Ok(None) => return,
            Err(problem) => Err(problem),
        };
        self.reply(key, trace.as_deref(), answer);
    }

    /// The trace of a request, and the request if its client may ask for that. `None` if the client has withdrawn it.
    fn admitted(&mut self, key: u64, payload: &[u8]) -> (Option<String>, Result<Option<Request>, Problem>) {
        let mut trace = None;
        let request = match serde_json::from_slice::<Call>(payload) {
            Ok(call) if call.protocol == PROTOCOL => {
                trace = call.trace.filter(|trace| trace::is_trace(trace));
                tracing::debug!(client = key, request = %redact::kind(&call.request), trace, "asked");
                let place = self.place_of(key, &call.place);
                if let Some(client) = self.clients.get_mut(&key) {
                    client.actor.place = place;
                }
                if self.is_withdrawn(key, &call.request) {
                    tracing::info!(client = key, trace, "withdrawn: the client has hung up");
                    return (trace, Ok(None));
                }
                let agents: Vec<String> = call.agent.into_iter().chain(call.also).collect();
                self.permitted(key, &agents, &call.request).map(|()| {
                    if let Some(client) = self.clients.get_mut(&key) {
                        client.is_known = true;
                    }
                    Some(call.request)
                })
            }
            Ok(call) => Err(Problem::new(
                Code::Unreachable,
                format!("this keeper speaks protocol {PROTOCOL}, the client {}", call.protocol),
            )
            .hint("use the same version of berth, or end the session with the old one")),
            Err(error) => Err(Problem::new(Code::Usage, format!("not understood: {error}"))),
        };
        (trace, request)
    }

    pub(super) fn reply(&mut self, key: u64, trace: Option<&str>, answer: Result<Option<Answer>, Problem>) {
        match answer {
            Ok(None) => {}
            Ok(Some(answer)) => self.answer(key, &answer),
            Err(problem) => {
                tracing::info!(client = key, code = ?problem.code, trace, "refused: {problem}");
                self.answer(key, &Answer::Problem { problem });
            }
        }
    }

    /// Whether the client of an order has disconnected: it has reported a failure to its own caller, so a keeper that was
    /// suspended must not carry the order out later. Reads and hooks order nothing. An owner that leaves a helper may be
    /// about to end and cannot wait, so its leaving counts whenever it is read. A restart changes nothing that a client
    /// could have reported.
    fn is_withdrawn(&self, key: u64, request: &Request) -> bool {
        match callers::deed_of(request) {
            Deed::Look | Deed::Release | Deed::Restart => false,
            _ => self.clients.get(&key).is_some_and(Client::has_hung_up),
        }
    }

    /// Refuses what whoever asks may not: an agent does not command its supervisor.
    fn permitted(&mut self, key: u64, agents: &[String], request: &Request) -> Result<(), Problem> {
        let session = &self.owner.history().session;
        let deed = callers::deed_to(request, session.spec.as_ref(), self.is_helper());
        if deed == Deed::Look {
            return Ok(());
        }
        // A keeper begins only in the directory of a session or helper, and a client that asks is there. Were it
        // otherwise nobody could tell who asks, and who cannot be told may look.
        let unknown = |what| Problem::new(Code::Bug, format!("it cannot be told who asks: {what}"));
        let home = Home::around(&self.dir).ok_or_else(|| unknown("this keeper is in no state directory"))?;
        let client = self.clients.get_mut(&key).ok_or_else(|| unknown("the client is gone"))?;
        let peer = &client.peer;
        let look = || match peer {
            Some(peer) => peer.look(&home),
            None => Seen::Unseen("nothing is known of the other end".to_owned()),
        };
        let seen = client.seen.get_or_insert_with(look);
        if *seen == Seen::Outside && agents.is_empty() {
            return Ok(());
        }
        let seen = seen.clone().and_for(&home, agents);
        let session = &self.owner.history().session;
        let owner = callers::owner_named(request);
        let target = |inside: &SessionId| match (deed, owner) {
            (Deed::Share | Deed::Release, Some(owner)) => SessionId::parse(owner)
                .map_or(Target::Stranger, |owner| callers::target_of(&home, inside, &owner)),
            (Deed::StopHelper, _) => {
                let owners = session.sharing.iter().flat_map(|sharing| &sharing.owners);
                callers::farthest(owners.map(|owner| callers::target_of(&home, inside, &owner.session)))
            }
            _ => {
                let parent = session.spec.as_ref().and_then(|spec| spec.parent.as_deref());
                callers::target(&home, inside, &self.id, parent)
            }
        };
        let handle = owner.map_or_else(|| self.handle_name(), ToOwned::to_owned);
        seen.allow(deed, &handle, target)
    }

    /// Answers at once, or returns `None` and answers later.
    fn on_request(&mut self, key: u64, request: Request) -> Result<Option<Answer>, Problem> {
        match request {
            Request::Create { .. } | Request::Resume { .. } | Request::StartHelper { .. } => {
                Err(self.refused(&Refusal::AlreadyRunning))
            }
            Request::Join { owner, wanted } => self.join(key, owner, &wanted),
            Request::Leave { owner } => self.leave_helper(&owner),
            Request::Status => self.done(),
            Request::Stop { grace_ms } => self.stop(key, Duration::from_millis(grace_ms)),
            Request::SwitchInterface { to, at_once } => self.switch_interface(key, to.into(), at_once),
            Request::Rename { name } => {
                let name = Name::parse(&name).map_err(|bad| Problem::new(Code::Usage, bad.to_string()))?;
                self.order(Command::Rename { name })?;
                self.done()
            }
            Request::Tag { add, remove } => {
                self.order(Command::Tag { add: tags_of(&add)?, remove: tags_of(&remove)? })?;
                self.done()
            }
            Request::Note { note } => {
                self.order(Command::Note { note })?;
                self.done()
            }
            Request::SetPolicy { change } => {
                self.order(Command::SetPolicy { change: change.into() })?;
                self.done()
            }
            Request::Attach { role, size } => self.attach(key, role, size),
            Request::Resize { size } => {
                let writes = self.clients.get(&key).and_then(|client| client.attached?.fence).is_some();
                if writes {
                    self.resize(size);
                }
                Ok(None)
            }
            Request::Type { text, take } => self.type_text(key, &text, take),
            Request::Screen { ansi } => {
                let text = if ansi { self.screen.ansi() } else { self.screen.text() };
                let (row, _) = self.screen.cursor();
                Ok(Some(Answer::Screen { text, cursor_row: Some(row) }))
            }
            Request::Turn { turn } => self.one_turn(turn),
            Request::Turns { from, limit } => self.some_turns(from, limit),
            Request::Events { from, limit } => self.some_events(from, limit),
            Request::Watch { from } => self.watch(key, from),
            Request::AwaitAgent => self.await_agent(key),
            Request::Send { submit } => {
                self.send_all(vec![(key, None, submit)]);
                Ok(None)
            }
            Request::Follow { turn } => self.follow_turn(key, turn),
            Request::Withdraw { turn } => self.withdraw(key, turn),
            Request::Cancel { turn } => self.cancel(key, turn),
            Request::Move { turn, to } => self.move_turn(turn, to),
            Request::Edit { turn, text } => self.edit(key, turn, text),
            Request::Pause => self.pause(key),
            Request::GoOn => self.go_on(key),
            Request::AnswerAsk { request, wish, epoch } => self.answer_ask(key, request, wish, epoch),
            Request::Hook { report } => self.on_hook(key, report),
            Request::Restart => self.restart(key),
        }
    }

    fn restart(&mut self, key: u64) -> Result<Option<Answer>, Problem> {
        self.take_heard();
        if self.has_heard() || !self.has_said_everything() {
            return Err(Problem::new(Code::Held, "the agent is still being told something").hint("try again"));
        }
        let answer = Answer::Done { status: Box::new(self.status()) };
        self.answer(key, &answer);
        self.flush_all();
        let error = self.watchdog.as_ref().map(berth_host::watchdog::Watchdog::restart_now);
        let why = error.map_or_else(|| "there is no watchdog".to_owned(), |error| error.to_string());
        Err(Problem::new(Code::Refused, format!("cannot replace the keeper's program: {why}")))
    }

    fn stop(&mut self, key: u64, grace: Duration) -> Result<Option<Answer>, Problem> {
        let Some(client) = self.clients.get_mut(&key) else { return Ok(None) };
        let by = client.actor.clone();
        self.order(Command::Stop { by, grace })?;
        self.answer_at_the_end(key);
        Ok(None)
    }

    /// Answers when the run is over, or proven not to be: now, or later.
    pub(super) fn answer_at_the_end(&mut self, key: u64) {
        let status = self.status();
        if !self.owner.history().session.is_live() || Self::is_unproven(&status) {
            self.answer_end(key, &status);
        } else if let Some(client) = self.clients.get_mut(&key) {
            client.awaits_end = true;
        }
    }

    pub(super) fn answer_end(&mut self, key: u64, status: &Status) {
        let answer = if Self::is_unproven(status) {
            let (kind, show) = if self.is_helper() { ("helper", "helper show") } else { ("session", "why") };
            let (handle, left) = (status.handle(), status.left.join("; "));
            let problem =
                Problem::new(Code::Refused, format!("{kind} `{handle}` could not be ended: {left}"))
                    .hint(format!("it is recorded as stopping; `berth {show} {handle}` shows what is left"));
            Answer::Problem { problem }
        } else {
            Answer::Done { status: Box::new(status.clone()) }
        };
        self.answer(key, &answer);
    }

    fn attach(&mut self, key: u64, role: Role, size: Size) -> Result<Option<Answer>, Problem> {
        self.room_for_lasting()?;
        let held = self.clients.get(&key).and_then(|client| client.attached?.fence);
        let fence = match role {
            Role::Observer => {
                if let Some(fence) = held {
                    self.release_writer(fence);
                }
                None
            }
            Role::Writer | Role::Take => Some(self.take_writer(key, role == Role::Take)?),
        };
        if fence.is_some() {
            self.resize(size);
        }
        let Some(client) = self.clients.get_mut(&key) else { return Ok(None) };
        // The screen follows as soon as it can be painted, which is at once but for a torn sequence.
        let since_ms = client.attached.map_or_else(clock::wall_ms, |attached| attached.since_ms);
        client.attached = Some(Attached { fence, behind: true, since_ms });
        let answer = Answer::Attached {
            fence: fence.map(|fence| fence.0),
            size: self.terminal_size(),
            alternate: self.screen.in_alternate(),
            output_end: self.output.end(),
        };
        self.answer(key, &answer);
        // At once, so that the screen is the one of `output_end`.
        self.flush(key);
        self.write_status_within(STATUS_DELAY_MS);
        Ok(None)
    }

    /// Gives the right to type to a client, and tells the one who loses it.
    fn take_writer(&mut self, key: u64, force: bool) -> Result<Fence, Problem> {
        let Some(client) = self.clients.get(&key) else { return Ok(Fence(0)) };
        let who = client.actor.clone();
        let taker = problem::describe(&who);
        let before = self.owner.history().session.writer.clone();
        self.order(Command::TakeWriter { who, force })?;
        self.note_taken(before.as_ref(), &taker);
        self.demote_others(key, &taker);
        Ok(self.owner.history().session.fence)
    }

    /// Writes down that a terminal was taken from its writer, if it had one.
    fn note_taken(&self, before: Option<&Writer>, taker: &str) {
        let Some(before) = before else { return };
        let event = AuditEvent::WriterTaken {
            session: self.id.to_string(),
            name: self.handle_name(),
            from: audit::plain(&problem::describe(&before.holder)),
        };
        audit::note(self.root(), taker, event);
    }

    fn demote_others(&mut self, key: u64, taker: &str) {
        let replaced = Notice::Replaced { by: taker.to_owned(), size: self.terminal_size() };
        let notice = serde_json::to_vec(&replaced).expect("plain data");
        for (other, client) in &mut self.clients {
            if let Some(attached) = client.attached.as_mut().filter(|attached| attached.fence.is_some())
                && *other != key
            {
                // An observer draws from a whole screen.
                (attached.fence, attached.behind) = (None, true);
                client.send(Kind::Notice, &notice);
            }
        }
    }

    /// Types once: takes the right, uses it, gives it back, in one commit.
    fn type_text(&mut self, key: u64, text: &str, force: bool) -> Result<Option<Answer>, Problem> {
        killpoint::reached("typing");
        let Some(client) = self.clients.get(&key) else { return Ok(None) };
        if self.open_terminal().is_none() {
            return Err(Problem::new(Code::Refused, "the agent has closed its terminal; nothing was typed"));
        }
        if self.owner.history().session.phase == Phase::Starting {
            // Its birth is not recorded yet. Refuse before anybody's right is taken for it.
            return Err(self.refused(&Refusal::NotRunning));
        }
        if !self.keys_have_room_for(text.len()) {
            return Err(Problem::new(Code::Refused, "the agent does not read its input; nothing was typed")
                .hint("try again when it has read what is waiting"));
        }
        let by = client.actor.clone();
        let taker = problem::describe(&by);
        let fence = self.owner.history().session.fence.next();
        let bytes = text.len() as u64;
        let inputs = vec![
            Input::Command(Command::TakeWriter { who: by.clone(), force }),
            Input::Command(Command::Type { by, fence, bytes }),
            Input::Command(Command::ReleaseWriter { fence }),
        ];
        let before = self.owner.history().session.writer.clone();
        let answers = self.take(inputs)?;
        if let Some(refusal) = answers.into_iter().find_map(Result::err) {
            return Err(self.refused(&refusal));
        }
        self.note_taken(before.as_ref(), &taker);
        self.demote_others(key, &taker);
        self.type_keys(text.as_bytes());
        self.done()
    }

    fn one_turn(&mut self, turn: u64) -> Result<Option<Answer>, Problem> {
        let found = self.owner.turns(turn, 1, 0)?.pop().filter(|found| found.number == turn);
        let found = found.ok_or_else(|| self.refused(&Refusal::NoSuchTurn { turn }))?;
        let hold = self.owner.history().session.turns.hold.as_ref();
        let needs_someone = hold.is_some_and(berth_core::Hold::needs_someone);
        let turn = Box::new(found);
        // What is too long for a frame is in the files.
        Ok(Some(match turn.text_bytes() > MOST_TURN_BYTES {
            true => self.no_turns(),
            false => Answer::Turn { turn, needs_someone },
        }))
    }

    fn no_turns(&self) -> Answer {
        let History { session, seq, .. } = self.owner.history();
        Answer::Turns(TurnPage { turns: vec![], total: session.turns.last(), seq: *seq })
    }

    fn some_turns(&mut self, from: u64, limit: u64) -> Result<Option<Answer>, Problem> {
        let mut turns = self.owner.turns(from, limit, MOST_ANSWER_BYTES)?;
        turns.pop_if(|last| last.text_bytes() > MOST_TURN_BYTES);
        let History { session, seq, .. } = self.owner.history();
        Ok(Some(Answer::Turns(TurnPage { turns, total: session.turns.last(), seq: *seq })))
    }

    fn some_events(&mut self, from: u64, limit: u64) -> Result<Option<Answer>, Problem> {
        let (from, seq) = (from.max(1), self.owner.history().seq);
        let to = seq.min(from.saturating_add(limit).saturating_sub(1));
        let events = match from <= to {
            true => store::read_range(&self.dir, &self.id, from, to, MOST_ANSWER_BYTES)?,
            false => Vec::new(),
        };
        let numbered =
            |event: &Committed<Stored>| Numbered { seq: event.seq().0, entry: event.get().entry() };
        let mut events: Vec<Numbered> = events.iter().map(numbered).collect();
        let bytes = |last: &Numbered| serde_json::to_vec(last).map_or(usize::MAX, |json| json.len());
        events.pop_if(|last| bytes(last) > frame::MAX_FRAME_BYTES / 2);
        Ok(Some(Answer::Events { events, seq }))
    }

    fn watch(&mut self, key: u64, from: u64) -> Result<Option<Answer>, Problem> {
        self.room_for_lasting()?;
        let committed = self.owner.history().seq;
        let past = if from > committed { Vec::new() } else { store::read(&self.dir, &self.id, from)? };
        let answer = Answer::Done { status: Box::new(self.status()) };
        self.answer(key, &answer);
        let Some(client) = self.clients.get_mut(&key) else { return Ok(None) };
        client.watches = true;
        for event in past.iter().filter(|event| event.seq().0 <= committed) {
            let notice = Notice::Event { seq: event.seq().0, entry: Box::new(event.get().entry()) };
            client.send(Kind::Notice, &serde_json::to_vec(&notice).expect("a notice is plain data"));
        }
        Ok(None)
    }

    pub(super) fn order(&mut self, command: Command) -> Result<(), Problem> {
        let answers = self.take(vec![Input::Command(command)])?;
        match answers.into_iter().find_map(Result::err) {
            Some(refusal) => Err(self.refused(&refusal)),
            None => Ok(()),
        }
    }

    pub(super) fn refused(&self, refusal: &Refusal) -> Problem {
        let name = self.handle_name();
        let mut problem = if self.is_helper() {
            problem::helper_refusal(refusal, &name)
        } else {
            problem::refusal(refusal, &name)
        };
        if let (Refusal::Held { .. }, Some(writer)) = (refusal, self.status().writer) {
            problem.what.push_str(&format!(", since {}", writer.since));
        }
        problem
    }

    pub(super) fn handle_name(&self) -> String {
        let name = self.owner.history().session.name.as_ref().map(ToString::to_string);
        name.unwrap_or_else(|| self.id.to_string())
    }

    pub(super) fn done(&self) -> Result<Option<Answer>, Problem> {
        Ok(Some(Answer::Done { status: Box::new(self.status()) }))
    }

    pub(super) fn answer(&mut self, key: u64, answer: &Answer) {
        if let Some(client) = self.clients.get_mut(&key) {
            client.send(Kind::Answer, &serde_json::to_vec(answer).expect("an answer is plain data"));
        }
    }

    /// Writes what a client takes now, and asks the kernel to say when it takes more.
    pub(super) fn flush(&mut self, key: u64) {
        // Room first: a client that takes the last of its queue only now would otherwise be called
        // drained by the kernel's silence and never be brought up to date.
        self.write_out(key);
        self.catch_up(key);
        self.write_out(key);
    }

    /// The same without bringing it up to date: for the moment when our own screen is not. One that took nothing is
    /// not asked again: the kernel says when there is room.
    pub(super) fn write_out(&mut self, key: u64) {
        let waits = |client: &Client| client.wants_write && !client.has_too_much();
        if !self.clients.get(&key).is_some_and(waits) {
            self.write_now(key);
        }
    }

    /// The same, whatever the kernel said last.
    pub(super) fn write_now(&mut self, key: u64) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        if client.flush().is_err() {
            return self.drop_client(key);
        }
        let wants_write = !client.is_drained();
        if wants_write != client.wants_write {
            client.wants_write = wants_write;
            self.update_interest(key);
        }
    }

    fn update_interest(&mut self, key: u64) {
        let Some(client) = self.clients.get(&key) else { return };
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, !client.paused);
        flags.set(epoll::EventFlags::OUT, client.wants_write);
        let _ = epoll::modify(&self.epoll, client.as_fd(), epoll::EventData::new_u64(key), flags);
    }

    /// Keys pile up: whoever sends them waits until the agent reads.
    fn pause_if_full(&mut self, key: u64) {
        if self.keys_are_full()
            && let Some(client) = self.clients.get_mut(&key)
        {
            client.paused = true;
            self.update_interest(key);
        }
    }

    pub(super) fn unpause_all(&mut self) {
        let paused: Vec<u64> =
            self.clients.iter().filter(|(_, client)| client.paused).map(|(key, _)| *key).collect();
        for key in paused {
            if let Some(client) = self.clients.get_mut(&key) {
                client.paused = false;
            }
            self.update_interest(key);
        }
    }

    pub(super) fn flush_all(&mut self) {
        let keys: Vec<u64> = self.clients.keys().copied().collect();
        for key in keys {
            self.flush(key);
        }
    }
}
