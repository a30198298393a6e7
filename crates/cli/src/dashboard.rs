//! The dashboard: `berth` alone on a terminal.
//!
//! Promise: it shows sessions as they are, who needs you first, and does nothing to them that was not asked for
//! with a key. Nothing that a session or its keeper does, or fails to do, holds it up. The terminal is given back
//! as it was.
//! Not here: sessions (it reads what lists read, and does what commands do).
//! Start with [`run`]; `model` says what keys do, `view` how it looks, `source` where it all comes from.

mod actions;
mod form;
mod layout;
mod model;
mod panel;
mod preview;
mod row;
mod source;
mod terminal;
mod transcript;
mod view;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::message::Role;
use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_host::clock;
use berth_verbs::hosts::Host;
use rustix::process::Signal;

use crate::attached::{self, Wish};
use crate::cmd::talk;
use crate::ctx::Ctx;
use crate::keys::Keys;
use crate::{print, remote, tty};
use model::{Done, Effect, Model, Outcome};
use source::{Inbox, Mailbox, Seen};
use terminal::Screen;
use view::Look;

/// How long an Escape waits for the rest of a key.
const KEY_PATIENCE: Duration = Duration::from_millis(50);
/// How long the first picture waits for the first sessions.
const FIRST_PATIENCE: Duration = Duration::from_millis(60);
/// How often ages are drawn anew while some are counted in seconds, and when none is.
const TICK: Duration = Duration::from_secs(1);
const SLOW_TICK: Duration = Duration::from_secs(20);
/// How long whoever leaves waits for what was asked for and is not confirmed.
const LEAVING_PATIENCE: Duration = Duration::from_secs(2);

/// Whether there is a person in front of a terminal that can do more than print lines.
pub(crate) fn is_possible() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    tty::is_interactive() && !is_dumb
}

/// Shows the dashboard until the person leaves.
pub(crate) fn run(ctx: Ctx) -> Result<u8, Problem> {
    // It starts keepers, and outlives them and their notifiers.
    berth_host::signals::let_children_go();
    let ctx = Arc::new(ctx);
    let mailbox = Arc::new(Mailbox::new()?);
    let screen = Screen::enter()?;
    source::start(&ctx, &mailbox)?;
    let mut model = Model::new(terminal::area(), clock::wall_ms());
    model.set_cwd(std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default());
    let look = Look { colour: tty::wants_colour() };
    let mut dashboard = Dashboard { ctx, mailbox, screen, model, look, keys: Keys::default() };
    let left = dashboard.until_left();
    dashboard.screen.give_back();
    match left {
        Ok(Left::ByKey) => {
            dashboard.last_words();
            Ok(0)
        }
        Ok(Left::BySignal(signal)) => Ok(u8::try_from(128 + signal).unwrap_or(255)),
        Err(error) => Err(Problem::new(Code::Refused, format!("cannot go on with the dashboard: {error}"))
            .hint("`berth ls` lists the sessions without it")),
    }
}

/// Why it is over.
enum Left {
    ByKey,
    BySignal(i32),
}

struct Dashboard {
    ctx: Arc<Ctx>,
    mailbox: Arc<Mailbox>,
    screen: Screen,
    model: Model,
    look: Look,
    keys: Keys,
}

impl Dashboard {
    fn until_left(&mut self) -> io::Result<Left> {
        let mut timeout = Some(FIRST_PATIENCE);
        let begun_at = Instant::now();
        let mut typed_at = begun_at;
        loop {
            let woken = self.screen.wait(std::os::fd::AsFd::as_fd(&*self.mailbox), timeout);
            if woken.is_gone {
                return Ok(Left::BySignal(Signal::HUP.as_raw()));
            }
            self.model.set_now(clock::wall_ms());
            self.model.set_uptime(begun_at.elapsed());
            let mut inputs = self.keys.push(&woken.keys);
            if !woken.keys.is_empty() {
                typed_at = Instant::now();
            } else if self.keys.waits() && typed_at.elapsed() >= KEY_PATIENCE {
                inputs.extend(self.keys.give_up());
            }
            let mut effects = self.take(self.mailbox.take());
            for input in inputs {
                effects.extend(self.model.input(input));
            }
            for signal in woken.signals {
                if let Some(left) = self.heed(signal)? {
                    return Ok(left);
                }
            }
            for effect in effects {
                if let Some(left) = self.perform(effect)? {
                    return Ok(left);
                }
            }
            self.mailbox.measure(self.seen());
            // One that has not taken the last picture gets the next when it has.
            if self.screen.drain() {
                let (model, look) = (&mut self.model, self.look);
                self.screen.draw(|buffer| view::draw(model, look, buffer))?;
                self.model.drawn();
            }
            let tick = if self.keys.waits() { KEY_PATIENCE } else { self.tick() };
            let changes = [self.model.reading_left(), self.model.note_left()].into_iter().flatten();
            timeout = Some(changes.fold(tick, Duration::min));
        }
    }

    fn take(&mut self, inbox: Inbox) -> Vec<Effect> {
        let mut effects = self.model.found(inbox.found);
        if inbox.loaded {
            self.model.loaded();
        }
        for (id, pulse) in &inbox.pulses {
            self.model.measured(id, pulse);
        }
        if let Some(preview) = inbox.preview {
            self.model.previewed(preview);
        }
        for listed in inbox.listed {
            effects.extend(self.model.listed(listed));
        }
        for done in inbox.done {
            effects.extend(self.model.done(done));
        }
        if let Some(problem) = inbox.trouble {
            self.model.trouble(problem);
        }
        effects.dedup();
        effects
    }

    fn heed(&mut self, signal: i32) -> io::Result<Option<Left>> {
        if signal == Signal::WINCH.as_raw() {
            self.model.resize(terminal::area());
            self.screen.repaint()?;
        } else if signal == Signal::CONT.as_raw() {
            // Somebody stopped us without asking; the shell had the terminal meanwhile.
            self.screen.give_back();
            self.retake()?;
        } else if signal == Signal::TSTP.as_raw() {
            self.suspend()?;
        } else {
            return Ok(Some(Left::BySignal(signal)));
        }
        Ok(None)
    }

    fn perform(&mut self, effect: Effect) -> io::Result<Option<Left>> {
        match effect {
            Effect::Quit => return Ok(Some(Left::ByKey)),
            Effect::Suspend => self.suspend()?,
            Effect::Redraw => self.screen.repaint()?,
            Effect::Bell => self.screen.bell(),
            Effect::Look(id) => self.mailbox.look_at(id),
            Effect::Do(action) => {
                let handle = self.model.handle_of_target(&action);
                actions::start(&self.ctx, &self.mailbox, action.words(&handle), handle, action);
            }
            Effect::List(kind) => actions::list(&self.ctx, &self.mailbox, kind),
            Effect::ListAgents => actions::list_agents(&self.mailbox),
            Effect::Attach { id, observe } => return self.attach(&id, observe),
            Effect::AttachThere { host, session } => self.attach_there(&host, &session)?,
        }
        Ok(None)
    }

    fn suspend(&mut self) -> io::Result<()> {
        self.screen.suspend()?;
        self.model.resize(terminal::area());
        Ok(())
    }

    fn retake(&mut self) -> io::Result<()> {
        self.screen.take()?;
        self.model.resize(terminal::area());
        Ok(())
    }

    /// Attaches with the same code as `berth attach`, and comes back.
    fn attach(&mut self, id: &SessionId, observe: bool) -> io::Result<Option<Left>> {
        let handle = self.model.handle_of(id);
        let takes_turns = self.model.selected().is_some_and(row::Row::takes_turns);
        self.mailbox.look_at(None);
        self.mailbox.measure(vec![]);
        self.screen.give_back();
        // What there is to say at the end is said here, not left behind in the shell.
        let outcome = if takes_turns {
            self.ctx.make_current(id);
            talk::visit(&self.ctx, id)
        } else {
            let role = if observe { Role::Observer } else { Role::Writer };
            attached::visit(&self.ctx, id, None, Wish::new(role, None)).and_then(|visit| visit.exit)
        };
        // The terminal went away meanwhile, or somebody wanted us to end.
        if let Ok(code @ (129 | 143)) = outcome
            && self.ctx.is_kept(id)
        {
            return Ok(Some(Left::BySignal(i32::from(code) - 128)));
        }
        self.screen.forget_signals();
        self.retake()?;
        self.mailbox.look_at(Some(id.clone()));
        let outcome = outcome.map(|_| Outcome::from(format!("back from {handle}")));
        self.model.done(Done { what: String::new(), outcome });
        Ok(None)
    }

    /// Attaches to a session of another host, and comes back.
    fn attach_there(&mut self, host: &Host, session: &str) -> io::Result<()> {
        self.mailbox.measure(vec![]);
        self.screen.give_back();
        let outcome = remote::run(host, vec!["attach".to_owned(), session.to_owned()], None);
        self.screen.forget_signals();
        self.retake()?;
        let outcome = outcome.map(|_| Outcome::from(format!("back from {}", host.name)));
        self.model.done(Done { what: String::new(), outcome });
        Ok(())
    }

    /// Who is in view and runs. Nobody yet while sessions are still found: measuring is dear, and what is
    /// measured once is not soon measured again.
    fn seen(&self) -> Vec<Seen> {
        if !self.model.is_loaded {
            return vec![];
        }
        let of = |id: SessionId| {
            let status = self.model.row(&id)?.status()?;
            let (keeper_pid, output_file) = (status.keeper_pid?, status.output_file.clone());
            Some(Seen { id, keeper_pid, output_file })
        };
        self.model.in_view().into_iter().filter_map(of).collect()
    }

    /// When the picture is out of date by itself: ages in seconds change every second.
    fn tick(&self) -> Duration {
        let now = self.model.now_ms();
        let in_seconds = |id: &SessionId| {
            let row = self.model.row(id);
            row.is_some_and(|row| now.saturating_sub(row.last_activity_at()) < 60_000)
        };
        if self.model.in_view().iter().any(in_seconds) { TICK } else { SLOW_TICK }
    }

    /// Waits a moment for what was asked for, and says what is not known.
    fn last_words(&mut self) {
        let until = Instant::now() + LEAVING_PATIENCE;
        while !self.model.busy.is_empty() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            self.screen.wait(std::os::fd::AsFd::as_fd(&*self.mailbox), Some(left));
            for done in self.mailbox.take().done {
                if let Err(problem) = &done.outcome {
                    print::problem(problem);
                }
                self.model.done(done);
            }
        }
        for busy in &self.model.busy {
            print::note(&format!("[{busy}: not confirmed yet; `berth ls` shows what became of it]"));
        }
    }
}
