//! Slow requests of the chat: sending, cancelling, answering. A thread makes them, so that the terminal never waits.
//!
//! Promise: errands are done one after the other, in the order they were given, and each is reported once.
//! Start with [`ChatSender::start`].

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};

use berth_api::Problem;
use berth_api::message::KeeperRequest;
use berth_api::turn::{NewTurn, QuestionReply};
use berth_core::{Command, SessionId};
use berth_verbs::VerbContext;

use crate::{tty, turns};

/// A request to the session.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum ChatRequest {
    Send(String),
    Cancel(u64),
    Answer { request: String, reply: QuestionReply, epoch: Option<u64> },
}

/// The thread that carries out errands, and the channels to it.
#[derive(Debug)]
pub(super) struct ChatSender {
    orders: Sender<ChatRequest>,
    reports: Receiver<(ChatRequest, Result<(), Problem>)>,
    bell: UnixStream,
    under_way: usize,
}

impl ChatSender {
    /// Starts the thread. The thread inherits the blocked signals of the caller.
    pub(super) fn start(id: &SessionId) -> io::Result<Self> {
        let (bell, mut rings) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let (orders, ordered) = channel::<ChatRequest>();
        let (reporter, reports) = channel();
        let id = id.clone();
        std::thread::Builder::new().name("errands".to_owned()).spawn(move || {
            for errand in ordered {
                let done = VerbContext::open(tty::terminal_description(), tty::terminal_size())
                    .map(VerbContext::from_here)
                    .and_then(|ctx| execute(&ctx, &id, &errand));
                let told = reporter.send((errand, done)).is_ok() && rings.write_all(b"!").is_ok();
                if !told {
                    return;
                }
            }
        })?;
        Ok(Self { orders, reports, bell, under_way: 0 })
    }

    /// Queues an errand. Returns it as the error if the thread has ended.
    pub(super) fn give(&mut self, errand: ChatRequest) -> Result<(), ChatRequest> {
        self.orders.send(errand).map_err(|refused| refused.0)?;
        self.under_way += 1;
        Ok(())
    }

    /// Number of errands that are not reported yet.
    pub(super) fn in_flight(&self) -> usize {
        self.under_way
    }

    /// The errands that were done since the last call, each with its result.
    pub(super) fn reports(&mut self) -> Vec<(ChatRequest, Result<(), Problem>)> {
        let mut rung = [0; 64];
        let _ = (&self.bell).read(&mut rung);
        let done: Vec<_> = self.reports.try_iter().collect();
        self.under_way -= done.len();
        done
    }
}

impl AsFd for ChatSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

fn execute(ctx: &VerbContext, id: &SessionId, errand: &ChatRequest) -> Result<(), Problem> {
    match errand {
        ChatRequest::Send(text) => {
            ctx.session(id).send(NewTurn { text: text.clone(), ..NewTurn::default() }).map(drop)
        }
        ChatRequest::Cancel(turn) => {
            let command = Command::Cancel { turn: *turn, by: ctx.me() };
            turns::change(ctx, id, KeeperRequest::Cancel { turn: *turn }, command)
        }
        ChatRequest::Answer { request, reply, epoch } => {
            let reply = reply.clone();
            match ctx
                .ask(id, KeeperRequest::AnswerAsk { request: Some(request.clone()), reply, epoch: *epoch })?
            {
                Some(_) => Ok(()),
                None => Err(Problem::not_found("the session is no longer running; nothing was answered")),
            }
        }
    }
}
