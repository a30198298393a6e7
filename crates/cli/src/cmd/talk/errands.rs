//! What takes its time: sending, cancelling, answering. A thread does it, so that the terminal never waits.
//!
//! Promise: one after the other, in the order they were given; each is reported once.
//! Start with [`Errands::start`].

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};

use berth_api::message::Request;
use berth_api::turn::{NewTurn, Wish};
use berth_api::{Code, Problem};
use berth_core::{Command, SessionId};

use crate::ctx::Ctx;
use crate::turns;

/// Something to be done.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Errand {
    Send(String),
    Cancel(u64),
    Answer { request: String, wish: Wish, epoch: Option<u64> },
}

/// One who does them.
#[derive(Debug)]
pub(super) struct Errands {
    orders: Sender<Errand>,
    reports: Receiver<(Errand, Result<(), Problem>)>,
    bell: UnixStream,
    under_way: usize,
}

impl Errands {
    /// Whatever signals are blocked by now are blocked for the one who does them, too.
    pub(super) fn start(id: &SessionId) -> io::Result<Self> {
        let (bell, mut rings) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let (orders, ordered) = channel::<Errand>();
        let (reporter, reports) = channel();
        let id = id.clone();
        std::thread::Builder::new().name("errands".to_owned()).spawn(move || {
            for errand in ordered {
                let done = Ctx::open().and_then(|ctx| perform(&ctx, &id, &errand));
                let told = reporter.send((errand, done)).is_ok() && rings.write_all(b"!").is_ok();
                if !told {
                    return;
                }
            }
        })?;
        Ok(Self { orders, reports, bell, under_way: 0 })
    }

    /// Has it done. If nobody is there any more to do it, it is given back.
    pub(super) fn give(&mut self, errand: Errand) -> Result<(), Errand> {
        self.orders.send(errand).map_err(|refused| refused.0)?;
        self.under_way += 1;
        Ok(())
    }

    /// How many are not reported yet.
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// What was done since the last time.
    pub(super) fn reports(&mut self) -> Vec<(Errand, Result<(), Problem>)> {
        let mut rung = [0; 64];
        let _ = (&self.bell).read(&mut rung);
        let done: Vec<_> = self.reports.try_iter().collect();
        self.under_way -= done.len();
        done
    }
}

impl AsFd for Errands {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

fn perform(ctx: &Ctx, id: &SessionId, errand: &Errand) -> Result<(), Problem> {
    match errand {
        Errand::Send(text) => {
            turns::send(ctx, id, NewTurn { text: text.clone(), ..NewTurn::default() }).map(drop)
        }
        Errand::Cancel(turn) => {
            let command = Command::Cancel { turn: *turn, by: ctx.me() };
            turns::change(ctx, id, Request::Cancel { turn: *turn }, command)
        }
        Errand::Answer { request, wish, epoch } => {
            let wish = wish.clone();
            match ctx.ask(id, Request::AnswerAsk { request: Some(request.clone()), wish, epoch: *epoch })? {
                Some(_) => Ok(()),
                None => Err(Problem::new(
                    Code::NotFound,
                    "the session is no longer running; nothing was answered",
                )),
            }
        }
    }
}
