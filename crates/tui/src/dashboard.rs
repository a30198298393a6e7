//! The dashboard: `berth` alone on a terminal.
//!
//! Promise: it shows sessions as they are, those that need you first, and changes one only at a key press. No session
//! and no keeper can block it. The terminal is restored at the end.
//! Not here: operations on sessions (it uses those of lists and commands).
//! Start with [`run_dashboard`]; `model` defines the keys, `view` the drawing, `source` the data.

mod actions;
mod form;
mod layout;
mod model;
mod panel;
mod preview;
mod preview_transcript;
mod row;
mod terminal;
mod view;
mod workers;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::Problem;
use berth_api::message::AttachMode;
use berth_core::SessionId;
use berth_host::clock;
use berth_verbs::VerbContext;
use berth_verbs::hosts::RemoteHost;
use rustix::process::Signal;

use crate::attachment::{self, AttachOptions};
use crate::chat;
use crate::current_session::set_current_session;
use crate::keys::KeyParser;
use crate::{print, tty};
use model::{ActionOutcome, DashboardEffect, DashboardModel, FinishedAction};
use terminal::DashboardTerminal;
use view::ViewStyle;
use workers::{DashboardInbox, DashboardMailbox, MeasuredSession};

/// How long an Escape waits for the rest of a key.
const KEY_PATIENCE: Duration = Duration::from_millis(50);
/// How long the first picture waits for the first sessions.
const FIRST_PATIENCE: Duration = Duration::from_millis(60);
/// How often ages are redrawn: while some are counted in seconds, and otherwise.
const TICK: Duration = Duration::from_secs(1);
const SLOW_TICK: Duration = Duration::from_secs(20);
/// How long a user who quits waits for actions that are not confirmed yet.
const LEAVING_PATIENCE: Duration = Duration::from_secs(2);

/// True if a user is at a terminal that can do more than print lines.
pub fn is_possible() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    tty::is_interactive() && !is_dumb
}

/// Runs a command on another host, at this terminal.
pub type RemoteCommandRunner = fn(&RemoteHost, Vec<String>) -> Result<u8, Problem>;

/// Shows the dashboard until the user quits.
pub fn run_dashboard(ctx: VerbContext, run_there: RemoteCommandRunner) -> Result<u8, Problem> {
    // The dashboard starts keepers and outlives them and their notifiers: the kernel must reap them.
    berth_host::signals::ignore_child_exits();
    let ctx = Arc::new(ctx);
    let mailbox = Arc::new(DashboardMailbox::new()?);
    let screen = DashboardTerminal::enter()?;
    workers::start(&ctx, &mailbox)?;
    let mut model = DashboardModel::new(terminal::area(), clock::wall_ms());
    model.set_cwd(std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default());
    let look = ViewStyle { colour: tty::wants_colour() };
    let mut dashboard =
        Dashboard { ctx, run_there, mailbox, screen, model, look, keys: KeyParser::default() };
    let left = dashboard.until_left();
    dashboard.screen.give_back();
    match left {
        Ok(DashboardExit::ByKey) => {
            dashboard.last_words();
            Ok(0)
        }
        Ok(DashboardExit::BySignal(signal)) => Ok(u8::try_from(128 + signal).unwrap_or(255)),
        Err(error) => Err(Problem::refused(format!("cannot go on with the dashboard: {error}"))
            .hint("`berth ls` lists the sessions without it")),
    }
}

/// Why the dashboard ended.
enum DashboardExit {
    ByKey,
    BySignal(i32),
}

struct Dashboard {
    ctx: Arc<VerbContext>,
    run_there: RemoteCommandRunner,
    mailbox: Arc<DashboardMailbox>,
    screen: DashboardTerminal,
    model: DashboardModel,
    look: ViewStyle,
    keys: KeyParser,
}

impl Dashboard {
    fn until_left(&mut self) -> io::Result<DashboardExit> {
        let mut timeout = Some(FIRST_PATIENCE);
        let begun_at = Instant::now();
        let mut typed_at = begun_at;
        loop {
            let woken = self.screen.wait(std::os::fd::AsFd::as_fd(&*self.mailbox), timeout);
            if woken.is_gone {
                return Ok(DashboardExit::BySignal(Signal::HUP.as_raw()));
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
            // A terminal that has not taken the last picture yet gets the next one later.
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

    fn take(&mut self, inbox: DashboardInbox) -> Vec<DashboardEffect> {
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

    fn heed(&mut self, signal: i32) -> io::Result<Option<DashboardExit>> {
        if signal == Signal::WINCH.as_raw() {
            self.model.resize(terminal::area());
            self.screen.repaint()?;
        } else if signal == Signal::CONT.as_raw() {
            // Another process stopped us, and the shell had the terminal meanwhile.
            self.screen.give_back();
            self.retake()?;
        } else if signal == Signal::TSTP.as_raw() {
            self.suspend()?;
        } else {
            return Ok(Some(DashboardExit::BySignal(signal)));
        }
        Ok(None)
    }

    fn perform(&mut self, effect: DashboardEffect) -> io::Result<Option<DashboardExit>> {
        match effect {
            DashboardEffect::Quit => return Ok(Some(DashboardExit::ByKey)),
            DashboardEffect::Suspend => self.suspend()?,
            DashboardEffect::Redraw => self.screen.repaint()?,
            DashboardEffect::Bell => self.screen.bell(),
            DashboardEffect::Look(id) => self.mailbox.look_at(id),
            DashboardEffect::Do(action) => {
                let handle = self.model.handle_of_target(&action);
                actions::start(&self.ctx, &self.mailbox, action.words(&handle), handle, action);
            }
            DashboardEffect::List(kind) => actions::list(&self.ctx, &self.mailbox, kind),
            DashboardEffect::ListAgents => actions::list_agents(&self.mailbox),
            DashboardEffect::Attach { id, observe } => return self.attach(&id, observe),
            DashboardEffect::AttachThere { host, session } => self.attach_there(&host, &session)?,
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

    /// Attaches like `berth attach`, then returns to the dashboard.
    fn attach(&mut self, id: &SessionId, observe: bool) -> io::Result<Option<DashboardExit>> {
        let handle = self.model.handle_of(id);
        let takes_turns = self.model.selected().is_some_and(row::DashboardRow::takes_turns);
        self.mailbox.look_at(None);
        self.mailbox.measure(vec![]);
        self.screen.give_back();
        // Remarks at the end are shown in the dashboard, not left behind in the shell.
        let outcome = if takes_turns {
            set_current_session(&self.ctx.home, id);
            chat::run_chat_quietly(&self.ctx, id)
        } else {
            let role = if observe { AttachMode::Observer } else { AttachMode::Writer };
            attachment::attach_quietly(&self.ctx, id, None, AttachOptions::new(role, None))
                .and_then(|visit| visit.exit)
        };
        // The terminal went away meanwhile, or a signal asked this process to end.
        if let Ok(code @ (129 | 143)) = outcome
            && self.ctx.is_kept(id)
        {
            return Ok(Some(DashboardExit::BySignal(i32::from(code) - 128)));
        }
        self.screen.forget_signals();
        self.retake()?;
        self.mailbox.look_at(Some(id.clone()));
        let outcome = outcome.map(|_| ActionOutcome::from(format!("back from {handle}")));
        self.model.done(FinishedAction { what: String::new(), outcome });
        Ok(None)
    }

    /// Attaches to a session of another host, then returns to the dashboard.
    fn attach_there(&mut self, host: &RemoteHost, session: &str) -> io::Result<()> {
        self.mailbox.measure(vec![]);
        self.screen.give_back();
        let outcome = (self.run_there)(host, vec!["attach".to_owned(), session.to_owned()]);
        self.screen.forget_signals();
        self.retake()?;
        let outcome = outcome.map(|_| ActionOutcome::from(format!("back from {}", host.name)));
        self.model.done(FinishedAction { what: String::new(), outcome });
        Ok(())
    }

    /// The running sessions in view. None while sessions are still being found: a measurement is
    /// expensive and is not repeated soon.
    fn seen(&self) -> Vec<MeasuredSession> {
        if !self.model.is_loaded {
            return vec![];
        }
        let of = |id: SessionId| {
            let status = self.model.row(&id)?.status()?;
            let (keeper_pid, output_file) = (status.keeper_pid?, status.output_file.clone());
            Some(MeasuredSession { id, keeper_pid, output_file })
        };
        self.model.in_view().into_iter().filter_map(of).collect()
    }

    /// How long until the picture is outdated without any event: ages in seconds change every second.
    fn tick(&self) -> Duration {
        let now = self.model.now_ms();
        let in_seconds = |id: &SessionId| {
            let row = self.model.row(id);
            row.is_some_and(|row| now.saturating_sub(row.last_activity_at()) < 60_000)
        };
        if self.model.in_view().iter().any(in_seconds) { TICK } else { SLOW_TICK }
    }

    /// Waits a moment for actions under way, and names those that are not confirmed.
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
            print::note(&format!("[{busy}: not confirmed yet; `berth ls` shows the result]"));
        }
    }
}
