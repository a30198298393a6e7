//! Connections of clients: accepted, read, and closed.
//!
//! Promise: requests are answered in the order in which each client sent them; an order of a client that has hung up is
//! not carried out.
//! Not here: the table of clients (`client_table`), the meaning of a request (`requests`).

use std::os::unix::net::UnixStream;

use berth_api::frame::{self, FrameKind};
use berth_api::message::{AttachMode, KeeperAnswer, KeeperCall, KeeperRequest, PROTOCOL};
use berth_api::{Problem, redact, trace};
use berth_core::{ActionTarget, CallerAction, Command, Fence, SessionId};
use berth_host::socket;
use berth_procs::callers::{self, CallerAttribution};
use rustix::event::epoll;

use super::Keeper;
use super::client::AttachmentState;
use super::client_table::{ClientInput, DepartedClient, MAX_CLIENTS, MAX_LASTING, QueuedCall};
use super::publish::STATUS_DELAY_MS;
use super::tui_turns::TuiTurns;
use crate::admission;
use crate::journaled_session::SessionInput;

/// True for a request that is answered from the current state, and leaves no trace in the journal.
fn needs_no_journal(request: &KeeperRequest, writes: bool) -> bool {
    match request {
        KeeperRequest::Attach { role, .. } => *role == AttachMode::Observer && !writes,
        KeeperRequest::Status
        | KeeperRequest::Screen { .. }
        | KeeperRequest::Resize { .. }
        | KeeperRequest::Turn { .. }
        | KeeperRequest::Turns { .. }
        | KeeperRequest::Watch => true,
        KeeperRequest::Create { .. }
        | KeeperRequest::Resume { .. }
        | KeeperRequest::SwitchInterface { .. }
        | KeeperRequest::StartHelper { .. }
        | KeeperRequest::Join { .. }
        | KeeperRequest::Leave { .. }
        | KeeperRequest::Stop { .. }
        | KeeperRequest::Rename { .. }
        | KeeperRequest::Tag { .. }
        | KeeperRequest::Note { .. }
        | KeeperRequest::SetPolicy { .. }
        | KeeperRequest::Type { .. }
        | KeeperRequest::AwaitAgent
        | KeeperRequest::Send { .. }
        | KeeperRequest::Follow { .. }
        | KeeperRequest::Withdraw { .. }
        | KeeperRequest::Cancel { .. }
        | KeeperRequest::Move { .. }
        | KeeperRequest::Edit { .. }
        | KeeperRequest::Pause
        | KeeperRequest::GoOn
        | KeeperRequest::AnswerAsk { .. }
        | KeeperRequest::Hook { .. }
        | KeeperRequest::Restart => false,
    }
}

/// Reads a request.
fn parse(payload: &[u8]) -> Result<KeeperCall, Problem> {
    match serde_json::from_slice::<KeeperCall>(payload) {
        Ok(call) if call.protocol == PROTOCOL => Ok(call),
        Ok(call) => {
            let what = format!("this keeper speaks protocol {PROTOCOL}, the client {}", call.protocol);
            Err(Problem::unreachable(what)
                .hint("use the same version of berth, or end the session with the old one"))
        }
        Err(error) => Err(Problem::usage(format!("the keeper does not understand the request: {error}"))
            .hint("if this session was started by another version of berth, use that version, or end it and start it again")),
    }
}

/// Sends an error to a client that connected and cannot be served.
fn turn_away(stream: &UnixStream, problem: Problem) {
    let answer = serde_json::to_vec(&KeeperAnswer::Problem { problem }).expect("an answer is plain data");
    // Small enough for the buffer of a new socket; a client that does not read it notices the end.
    let _ = stream.set_nonblocking(true);
    let _ = frame::write_frame(&mut &*stream, FrameKind::Answer, &[&answer]);
}

impl Keeper {
    pub(super) fn accept(&mut self) {
        // While a batch is in flight, clients that left are still counted: the next ones wait.
        while !self.journal.is_busy() || self.clients.has_room() {
            let Some(stream) = self.event_loop.accept() else { return };
            let ours = rustix::process::geteuid().as_raw();
            // Another account has no access here, even if the mode of the file allows it; root is root.
            let allowed =
                socket::peer_credentials(&stream).is_ok_and(|peer| peer.uid == ours || peer.uid == 0);
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

    /// Serves clients that have hung up, and removes them. After a keeper stood still, all clients that gave up are
    /// in the queue before the first that did not.
    fn let_go_of_the_gone(&mut self) {
        self.forget_departing();
        for key in self.clients.hung_up() {
            // The requests it sent come first, then its end.
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
            // Clients that wait for the helper will be answered soon.
            return Problem::held(format!("helper `{name}` serves {limit} clients already"))
                .hint("try again");
        }
        Problem::full(format!("session `{name}` serves {limit} clients already"))
            .hint("detach some, then try again")
    }

    /// Rejects more than the limit of clients that attach, watch or wait.
    pub(super) fn room_for_lasting(&self) -> Result<(), Problem> {
        if self.clients.has_room_for_lasting() { Ok(()) } else { Err(self.too_many(MAX_LASTING)) }
    }

    pub(super) fn on_client(&mut self, key: u64, flags: epoll::EventFlags) {
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR)
            && self.clients.accepts_requests(key)
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
        if let Some(hoarder) = self.clients.longest_unfinished_sender() {
            self.drop_client(hoarder);
        }
        // Keys pile up: a client that sends keys waits until the agent reads.
        if !self.has_room_for_keys(1) {
            self.clients.pause(key);
        }
    }

    /// Takes the frames of a client, up to a request that has to wait.
    fn on_frames(&mut self, key: u64) {
        loop {
            match self.clients.next_received(key) {
                ClientInput::Keys(payload) => self.on_keys(key, &payload),
                ClientInput::Call(payload) => match parse(&payload) {
                    Ok(call) if self.must_queue(key, &call.request) => {
                        self.clients.queue_call(key, QueuedCall { call, bytes: payload.len() });
                    }
                    Ok(call) => {
                        self.clients.begin_call(key);
                        self.on_call(key, call);
                        self.clients.end_call(key);
                    }
                    Err(problem) => self.reply(key, None, Err(problem)),
                },
                ClientInput::Nothing => return,
                ClientInput::Invalid => return self.drop_client(key),
            }
        }
    }

    /// True for a request that waits for [`Self::answer_calls`]. All turns do: those that arrive together are accepted with
    /// one sync.
    fn must_queue(&self, key: u64, request: &KeeperRequest) -> bool {
        match request {
            KeeperRequest::Send { .. } => true,
            // A request behind turns of other clients waits with them, so that it is decided on a session with these turns.
            other => {
                let must_wait = self.journal.is_busy() || self.clients.has_calls();
                must_wait && !needs_no_journal(other, self.clients.writes(key))
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

    // Disconnected clients.

    /// Forgets a client. If it was the writer, no client is, and that is recorded.
    pub(super) fn drop_client(&mut self, key: u64) {
        if self.journal.is_busy() && self.clients.removal_needs_commit(key) {
            return self.clients.depart(key);
        }
        let Some(DepartedClient { attached, hook_request }) = self.clients.remove(key) else { return };
        if let Some(request) = hook_request {
            self.on_hook_left(request);
        }
        let Some(AttachmentState { fence, .. }) = attached else { return };
        // No event records that an observer left.
        self.write_status_within(STATUS_DELAY_MS);
        if let Some(fence) = fence {
            self.release_writer(fence);
        }
    }

    /// Removes the clients whose connections failed.
    pub(super) fn forget_departing(&mut self) {
        for key in self.clients.take_departing() {
            self.drop_client(key);
        }
    }

    pub(super) fn release_writer(&mut self, fence: Fence) {
        if self.take(vec![SessionInput::Command(Command::ReleaseWriter { fence })]).is_err() {
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

    // Requests of clients.

    fn on_call(&mut self, key: u64, call: KeeperCall) {
        let (trace, admitted) = self.admitted(key, call);
        let answer = match admitted {
            Ok(Some(request)) => self.on_request(key, request),
            Ok(None) => return,
            Err(problem) => Err(problem),
        };
        self.reply(key, trace.as_deref(), answer);
    }

    /// Answers the requests that were queued. Turns are accepted as one batch, with one sync.
    pub(super) fn answer_calls(&mut self) {
        let (mut sends, mut restarts) = (Vec::new(), Vec::new());
        let calls = self.clients.take_calls();
        let keys: Vec<u64> = calls.iter().map(|(key, _)| *key).collect();
        for (key, QueuedCall { call, .. }) in calls {
            let (trace, admitted) = self.admitted(key, call);
            match admitted {
                Ok(Some(KeeperRequest::Send { submit })) => sends.push((key, trace, submit)),
                // Restarts come last, because a new image knows nothing of the other requests.
                Ok(Some(KeeperRequest::Restart)) => restarts.push((key, trace)),
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
            let answer = self.on_request(key, KeeperRequest::Restart);
            self.reply(key, trace.as_deref(), answer);
        }
        for key in keys {
            self.clients.end_call(key);
            self.flush(key);
            self.on_frames(key);
        }
    }

    pub(super) fn reply(
        &mut self,
        key: u64,
        trace: Option<&str>,
        answer: Result<Option<KeeperAnswer>, Problem>,
    ) {
        match answer {
            Ok(None) => {}
            Ok(Some(answer)) => self.clients.answer(key, &answer),
            Err(problem) => {
                tracing::info!(client = key, code = ?problem.code, trace, "refused: {problem}");
                self.clients.answer(key, &KeeperAnswer::Problem { problem });
            }
        }
    }

    /// The trace of a request, and the request if its client may make it. `None` if the client has withdrawn it.
    fn admitted(
        &mut self,
        key: u64,
        call: KeeperCall,
    ) -> (Option<String>, Result<Option<KeeperRequest>, Problem>) {
        let trace = call.trace.filter(|trace| trace::is_trace_id(trace));
        tracing::debug!(client = key, request = %redact::variant_name(&call.request), trace, "asked");
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
    fn is_withdrawn(&self, key: u64, request: &KeeperRequest) -> bool {
        match callers::action_of_request(request) {
            CallerAction::Look | CallerAction::Release | CallerAction::Restart => false,
            _ => self.clients.has_hung_up(key),
        }
    }

    /// Rejects a request that the caller may not make: an agent does not command its supervisor.
    fn permitted(&mut self, key: u64, agents: &[String], request: &KeeperRequest) -> Result<(), Problem> {
        let session = self.journal.session();
        let action = admission::action_on(request, session.spec.as_ref(), self.identity.is_helper());
        if action == CallerAction::Look {
            return Ok(());
        }
        // A keeper begins only in the directory of a session or helper, and a client that asks is there. Otherwise
        // the caller could not be attributed, and such a caller may only read.
        let unknown = |what| Problem::bug(format!("cannot identify the caller: {what}"));
        let home = self.identity.home();
        let seen = self.clients.seen(key, &home).ok_or_else(|| unknown("the client is gone"))?;
        if *seen == CallerAttribution::Outside && agents.is_empty() {
            return Ok(());
        }
        let seen = seen.clone().and_for(&home, agents);
        let owner = admission::owner_named(request);
        let target = |inside: &SessionId| match (action, owner) {
            (CallerAction::Share | CallerAction::Release, Some(owner)) => SessionId::parse(owner)
                .map_or(ActionTarget::Stranger, |owner| callers::action_target(&home, inside, &owner)),
            (CallerAction::StopHelper, _) => {
                let owners = session.sharing.iter().flat_map(|sharing| &sharing.owners);
                callers::farthest_target(
                    owners.map(|owner| callers::action_target(&home, inside, &owner.session)),
                )
            }
            _ => {
                let parent = session.spec.as_ref().and_then(|spec| spec.parent.as_deref());
                callers::action_target_with_parent(&home, inside, self.identity.session(), parent)
            }
        };
        let handle = owner.map_or_else(|| self.handle_name(), ToOwned::to_owned);
        seen.allow(action, &handle, target)
    }
}
