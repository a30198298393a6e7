//! Connections of clients: accepted, read, and let go of.
//!
//! Promise: requests are answered in the order in which each client sent them; an order of a client that has hung up is not
//! carried out.
//! Not here: the table of clients (`client_table`), what a request means (`requests`).

use std::os::unix::net::UnixStream;

use berth_api::frame::{self, Kind};
use berth_api::message::{Answer, Call, PROTOCOL, Request, Role};
use berth_api::{Code, Problem, redact, trace};
use berth_core::{Command, Deed, Fence, SessionId, Target};
use berth_host::socket;
use rustix::event::epoll;

use super::Keeper;
use super::client::Attached;
use super::client_table::{Departed, MAX_CLIENTS, MAX_LASTING, Received};
use super::publish::STATUS_DELAY_MS;
use super::tui_turns::TuiTurns;
use crate::callers::{self, Seen};
use crate::journaled_session::Input;

/// True for a request that is answered from the state as it is, and leaves no trace in the journal.
fn needs_no_journal(payload: &[u8], writes: bool) -> bool {
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

/// Tells a client that connected that it cannot be served.
fn turn_away(stream: &UnixStream, problem: Problem) {
    let answer = serde_json::to_vec(&Answer::Problem { problem }).expect("an answer is plain data");
    // Small enough for the buffer of a new socket; a client that does not read it notices the end.
    let _ = stream.set_nonblocking(true);
    let _ = frame::write(&mut &*stream, Kind::Answer, &[&answer]);
}

impl Keeper {
    pub(super) fn accept(&mut self) {
        // While a batch is in flight, clients that left are still counted: the next ones wait.
        while !self.journal.is_busy() || self.clients.has_room() {
            let Some(stream) = self.event_loop.accept() else { return };
            let ours = rustix::process::geteuid().as_raw();
            // Another account has no business here, whatever the file's mode says; root is root.
            let allowed = socket::peer(&stream).is_ok_and(|peer| peer.uid == ours || peer.uid == 0);
            if !allowed {
                continue;
            }
            if !self.clients.has_room() && !self.journal.is_busy() {
                self.let_go_of_the_gone();
            }
            if self.clients.has_room() {
                let _ = self.clients.add(stream, &self.identity.home());
            } else {
                turn_away(&stream, self.too_many(MAX_CLIENTS));
            }
        }
    }

    /// Serves clients that have hung up, and forgets them. After a keeper stood still, all that gave up on it are in the
    /// queue before the first that did not.
    fn let_go_of_the_gone(&mut self) {
        self.forget_departing();
        for key in self.clients.hung_up() {
            // First what it said, then its end.
            while self.clients.contains(key) {
                self.answer_calls();
                self.on_client(key, epoll::EventFlags::IN);
                self.forget_departing();
            }
        }
    }

    fn too_many(&self, limit: usize) -> Problem {
        let name = self.handle_name();
        if self.identity.is_helper() {
            // Clients that wait for it will have been told soon.
            return Problem::new(Code::Held, format!("helper `{name}` serves {limit} clients already"))
                .hint("try again");
        }
        Problem::new(Code::Full, format!("session `{name}` serves {limit} clients already"))
            .hint("detach some, then try again")
    }

    /// Refuses to be attached to, watched or waited for by more than the limit.
    pub(super) fn room_for_lasting(&self) -> Result<(), Problem> {
        if self.clients.has_room_for_lasting() { Ok(()) } else { Err(self.too_many(MAX_LASTING)) }
    }

    pub(super) fn on_client(&mut self, key: u64, flags: epoll::EventFlags) {
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR)
            && self.clients.is_heard(key)
        {
            self.receive(key);
        }
        if flags.contains(epoll::EventFlags::OUT) {
            self.clients.write_now(key);
        }
        self.flush(key);
    }

    /// Reads a client, and carries out its requests.
    pub(super) fn receive(&mut self, key: u64) {
        let Some(is_open) = self.clients.receive(key) else { return };
        self.on_frames(key);
        if !is_open {
            return self.drop_client(key);
        }
        if let Some(hoarder) = self.clients.hoarder() {
            self.drop_client(hoarder);
        }
        // Keys pile up: a client that sends them waits until the agent reads.
        if !self.has_room_for_keys(1) {
            self.clients.pause(key);
        }
    }

    /// Takes the frames of a client, up to a request that has to wait.
    fn on_frames(&mut self, key: u64) {
        loop {
            match self.clients.next_received(key) {
                Received::Keys(payload) => self.on_keys(key, &payload),
                Received::Call(payload)
                    if self.journal.is_busy() && !needs_no_journal(&payload, self.clients.writes(key)) =>
                {
                    self.clients.queue_call(key, payload);
                }
                Received::Call(payload) => {
                    self.clients.begin_call(key);
                    self.on_call(key, &payload);
                    self.clients.end_call(key);
                }
                Received::Nothing => return,
                Received::Invalid => return self.drop_client(key),
            }
        }
    }

    /// Brings a client up to date, and writes what it takes now.
    pub(super) fn flush(&mut self, key: u64) {
        self.clients.flush(key, &mut self.terminal, self.output.end());
    }

    pub(super) fn flush_all(&mut self) {
        self.clients.flush_all(&mut self.terminal, self.output.end());
    }

    /// Reads clients again that sent more keys than the agent read, once it has read all of them or never will.
    pub(super) fn unpause_clients(&mut self) {
        let keeps_keys = self.tui_turns.kept_behind() > 0 && TuiTurns::has_time(self.journal.session());
        let has_read_all = !self.terminal.has_waiting_keys() && !keeps_keys;
        if has_read_all && self.clients.has_paused() {
            self.clients.unpause_all();
        }
    }

    // Letting go.

    /// Forgets a client. If it was the writer, no client is, and that is recorded.
    pub(super) fn drop_client(&mut self, key: u64) {
        if self.journal.is_busy() && self.clients.leaves_a_trace(key) {
            return self.clients.depart(key);
        }
        let Some(Departed { attached, hook_request }) = self.clients.remove(key) else { return };
        if let Some(request) = hook_request {
            self.on_hook_left(request);
        }
        let Some(Attached { fence, .. }) = attached else { return };
        // An observer that left is in no event.
        self.write_status_within(STATUS_DELAY_MS);
        if let Some(fence) = fence {
            self.release_writer(fence);
        }
    }

    /// Forgets the clients whose connections failed.
    pub(super) fn forget_departing(&mut self) {
        for key in self.clients.take_departing() {
            self.drop_client(key);
        }
    }

    pub(super) fn release_writer(&mut self, fence: Fence) {
        if self.take(vec![Input::Command(Command::ReleaseWriter { fence })]).is_err() {
            self.journal.retry_soon();
        }
    }

    /// Takes back the right to type of a client whose connection is gone.
    pub(super) fn release_absent_writer(&mut self) {
        let Some(writer) = &self.journal.session().writer else { return };
        let fence = writer.fence;
        if !self.clients.has_writer(fence) {
            self.release_writer(fence);
        }
    }

    // Requests.

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

    /// Answers the requests that arrived while a batch was in flight. Turns that were sent are one batch: they are accepted
    /// with one sync.
    pub(super) fn answer_calls(&mut self) {
        let (mut sends, mut restarts) = (Vec::new(), Vec::new());
        let calls = self.clients.take_calls();
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
            self.clients.end_call(key);
            self.flush(key);
            self.on_frames(key);
        }
    }

    pub(super) fn reply(&mut self, key: u64, trace: Option<&str>, answer: Result<Option<Answer>, Problem>) {
        match answer {
            Ok(None) => {}
            Ok(Some(answer)) => self.clients.answer(key, &answer),
            Err(problem) => {
                tracing::info!(client = key, code = ?problem.code, trace, "refused: {problem}");
                self.clients.answer(key, &Answer::Problem { problem });
            }
        }
    }

    /// The trace of a request, and the request if its client may ask for that. `None` if the client has withdrawn it.
    fn admitted(&mut self, key: u64, payload: &[u8]) -> (Option<String>, Result<Option<Request>, Problem>) {
        let call = match serde_json::from_slice::<Call>(payload) {
            Ok(call) if call.protocol == PROTOCOL => call,
            Ok(call) => {
                let what = format!("this keeper speaks protocol {PROTOCOL}, the client {}", call.protocol);
                let problem = Problem::new(Code::Unreachable, what)
                    .hint("use the same version of berth, or end the session with the old one");
                return (None, Err(problem));
            }
            Err(error) => return (None, Err(Problem::new(Code::Usage, format!("not understood: {error}")))),
        };
        let trace = call.trace.filter(|trace| trace::is_trace(trace));
        tracing::debug!(client = key, request = %redact::kind(&call.request), trace, "asked");
        self.clients.set_place(key, &call.place, self.identity.root());
        if self.is_withdrawn(key, &call.request) {
            tracing::info!(client = key, trace, "withdrawn: the client has hung up");
            return (trace, Ok(None));
        }
        let agents: Vec<String> = call.agent.into_iter().chain(call.also).collect();
        let request = self.permitted(key, &agents, &call.request).map(|()| {
            self.clients.admit(key);
            Some(call.request)
        });
        (trace, request)
    }

    /// True if the client of an order has disconnected: it has reported a failure to its own caller, so a keeper that was
    /// suspended must not carry the order out later. Reads and hooks order nothing. An owner that leaves a helper may be
    /// about to end and cannot wait, so its leaving counts whenever it is read. A restart changes nothing that a client
    /// could have reported.
    fn is_withdrawn(&self, key: u64, request: &Request) -> bool {
        match callers::deed_of(request) {
            Deed::Look | Deed::Release | Deed::Restart => false,
            _ => self.clients.has_hung_up(key),
        }
    }

    /// Refuses what the caller may not do: an agent does not command its supervisor.
    fn permitted(&mut self, key: u64, agents: &[String], request: &Request) -> Result<(), Problem> {
        let session = self.journal.session();
        let deed = callers::deed_to(request, session.spec.as_ref(), self.identity.is_helper());
        if deed == Deed::Look {
            return Ok(());
        }
        // A keeper begins only in the directory of a session or helper, and a client that asks is there. Were it
        // otherwise the caller could not be told, and such a caller may only look.
        let unknown = |what| Problem::new(Code::Bug, format!("it cannot be told who asks: {what}"));
        let home = self.identity.home();
        let seen = self.clients.seen(key, &home).ok_or_else(|| unknown("the client is gone"))?;
        if *seen == Seen::Outside && agents.is_empty() {
            return Ok(());
        }
        let seen = seen.clone().and_for(&home, agents);
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
                callers::target(&home, inside, self.identity.session(), parent)
            }
        };
        let handle = owner.map_or_else(|| self.handle_name(), ToOwned::to_owned);
        seen.allow(deed, &handle, target)
    }
}
