//! The notifier: a process that tells people of one event, and is gone.
//!
//! Promise: an event is claimed on disk before anybody is told of it, so nobody is told twice; every way to tell
//! people has its limit, and so has the process; what came of it is in the log (`berth notify log`). No secret
//! is in a message, an error or the log.
//! Not here: whether there is anything to tell (see `berth_keeper::notify`), the keys (see
//! [`crate::config::notify`]).
//! Start with [`notifier`]; `message` is what people read, the others are ways to tell them.

mod command;
pub(crate) mod message;
mod sign;
mod terminal;
mod webhook;

use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

use berth_api::status::Timestamp;
use berth_api::{Code, Problem};
use berth_core::{Notify, Occasion, SessionId};
use berth_host::clock;
use berth_keeper::notify::{Delivery, Desk, MOST_AT_WORK, Outcome, Told, read_args};
use berth_store::SessionFiles;
use berth_store::{Home, killpoint};

use crate::config::{Config, notify::NotifyKeys, notify::Webhook};
pub(crate) use message::Notification;

/// How long a notifier may live, whatever hangs.
const LIFETIME: Duration = Duration::from_secs(120);
/// How much longer than its ways to tell people it lives: to write down what came of them.
const LAST_LINES: Duration = Duration::from_secs(10);
/// The variable that shortens [`LIFETIME`] for tests, in milliseconds. Not in release builds.
const LIFETIME_VARIABLE: &str = "BERTH_TEST_NOTIFIER_MS";

/// What came of one way to tell people.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Came {
    pub(crate) outcome: Outcome,
    /// Why, or to whom.
    pub(crate) detail: String,
    pub(crate) tries: u32,
}

impl Came {
    pub(crate) fn sent(detail: impl Into<String>) -> Self {
        Self { outcome: Outcome::Sent, detail: detail.into(), tries: 1 }
    }

    pub(crate) fn skipped(detail: impl Into<String>) -> Self {
        Self { outcome: Outcome::Skipped, detail: detail.into(), tries: 0 }
    }

    pub(crate) fn failed(detail: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failed, detail: detail.into(), tries: 1 }
    }
}

/// A way to tell people.
#[derive(Debug)]
pub(crate) enum Channel<'a> {
    Terminal,
    Desktop,
    Command(&'a [String]),
    Webhook(&'a str, &'a Webhook),
}

impl<'a> Channel<'a> {
    /// Those a person asked for.
    pub(crate) fn of(keys: &'a NotifyKeys) -> Vec<Self> {
        let mut channels = Vec::new();
        channels.extend(keys.terminal.then_some(Self::Terminal));
        channels.extend(keys.desktop.then_some(Self::Desktop));
        channels.extend(keys.command.as_deref().map(Self::Command));
        channels.extend(keys.webhooks.iter().map(|(name, hook)| Self::Webhook(name, hook)));
        channels
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Terminal => "terminal".to_owned(),
            Self::Desktop => "desktop".to_owned(),
            Self::Command(_) => "command".to_owned(),
            Self::Webhook("", _) => "webhook".to_owned(),
            Self::Webhook(name, _) => format!("webhook.{name}"),
        }
    }

    /// Tells people in this way.
    pub(crate) fn tell(&self, keys: &NotifyKeys, home: &Home, told: &Notification, until: Instant) -> Came {
        match self {
            Self::Terminal => terminal::tell(home, told, keys.terminal_style),
            Self::Desktop => command::desktop(told, keys.command_timeout, until),
            Self::Command(words) => command::run(words, told, keys.command_timeout, until),
            Self::Webhook(_, hook) => webhook::post(hook, told, until),
        }
    }
}

/// How long telling people may take in all.
pub(crate) fn lifetime() -> Duration {
    killpoint::patience(LIFETIME_VARIABLE, LIFETIME)
}

/// Runs the notifier. `args` is what follows the hidden verb. Returns the exit code.
pub(crate) fn notifier(args: &[OsString]) -> u8 {
    let Some((place, told)) = read_args(args) else { return Code::Usage.exit_code() };
    // What a person's own command leaves behind stays below us, and so inside of its session, for as long as we are there.
    let _ = berth_host::tree::become_subreaper();
    let lifetime = lifetime();
    // Whatever hangs (a name that is looked up, a disk, a program that cannot be killed), this does not.
    std::thread::spawn(move || {
        std::thread::sleep(lifetime + LAST_LINES);
        std::process::exit(Code::TimedOut.exit_code().into());
    });
    match tell(place.as_os_str(), &told, Instant::now() + lifetime) {
        Ok(()) => 0,
        Err(problem) => problem.code.exit_code(),
    }
}

fn tell(place: &OsStr, told: &[Told], until: Instant) -> Result<(), Problem> {
    let (home, session) = SessionFiles::open(place)?;
    let id = session.id().clone();
    let desk = Desk::open(&home)?;
    let first = told.first().copied();
    // From here on there is a place to say what went wrong.
    let noted = tell_at(&desk, &home, &id, told, until);
    if let (Err(problem), Some((event, occasion))) = (&noted, first) {
        let delivery = Delivery {
            at: Timestamp(clock::wall_ms()),
            session: id.to_string(),
            event,
            what: occasion.word().to_owned(),
            detail: problem.what.clone(),
            ..Delivery::default()
        };
        let _ = desk.note(&delivery);
    }
    noted
}

fn tell_at(desk: &Desk, home: &Home, id: &SessionId, told: &[Told], until: Instant) -> Result<(), Problem> {
    let trouble = |what: &str, error: std::io::Error| {
        Problem::new(Code::Refused, format!("cannot {what} in {}: {error}", home.root().display()))
    };
    // Half of its time at most: the other half is for telling.
    let patience = until.saturating_duration_since(Instant::now()) / 2;
    let seat = desk.sit(patience).map_err(|error| trouble("take a notifier's seat", error))?;
    let Some(_seat) = seat else {
        let what = format!("{MOST_AT_WORK} other notifiers were busy all the time; no notification was sent");
        return Err(Problem::new(Code::Refused, what));
    };
    let config = Config::load()?;
    let keys = &config.notify;
    let channels = Channel::of(keys);
    let past = message::Past::read(home, id)?;
    let wanted = match past.policy() {
        Notify::AsConfigured => keys.on.clone(),
        Notify::Only(occasions) => occasions,
    };
    let Some((event, occasion)) = most_urgent(told, &wanted).filter(|_| !channels.is_empty()) else {
        return Ok(());
    };
    let all: Vec<u64> = told.iter().map(|(event, _)| *event).collect();
    if !desk.claim(id, &all).map_err(|error| trouble("claim an event", error))? {
        return Ok(());
    }
    let notification = past.notification(event, occasion)?;
    tell_all(&channels, keys, home, &notification, until, |delivery| drop(desk.note(&delivery)));
    Ok(())
}

/// Tells people in all these ways at the same time: one that hangs does not keep the others waiting, and one that
/// breaks is a failure like any other. `note` hears of each as soon as it is over.
pub(crate) fn tell_all(
    channels: &[Channel<'_>],
    keys: &NotifyKeys,
    home: &Home,
    told: &Notification,
    until: Instant,
    note: impl Fn(Delivery) + Sync,
) {
    std::thread::scope(|scope| {
        for channel in channels {
            scope.spawn(|| {
                let tell = || channel.tell(keys, home, told, until);
                // Nothing is kept that it may have left half changed.
                let came = std::panic::catch_unwind(std::panic::AssertUnwindSafe(tell));
                let came = came.unwrap_or_else(|_| Came::failed("it failed unexpectedly: a bug in berth"));
                note(told.delivery(channel.name(), came));
            });
        }
    });
}

/// The most urgent of what happened together and is wanted: one event, one notification.
fn most_urgent(told: &[Told], wanted: &[Occasion]) -> Option<Told> {
    told.iter()
        .copied()
        .filter(|(_, occasion)| wanted.contains(occasion))
        .min_by_key(|(_, occasion)| *occasion)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_happened_together_the_most_urgent_that_is_wanted_is_told() {
        let told = [(5, Occasion::Failed), (6, Occasion::NeedsYou), (7, Occasion::Failed)];
        assert_eq!(most_urgent(&told, &Occasion::ALL), Some((6, Occasion::NeedsYou)));
        assert_eq!(most_urgent(&told, &[Occasion::Failed]), Some((5, Occasion::Failed)));
        assert_eq!(most_urgent(&told, &[Occasion::Finished]), None);
    }
}
