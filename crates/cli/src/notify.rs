//! The notifier: a process that sends the notifications of one event, and ends.
//!
//! Promise: an event is claimed on disk before a notification is sent, so none is sent twice. Every channel has a
//! timeout, and so has the process. The results are in the log (`berth notify log`). No secret is in a message, an
//! error or the log.
//! Not here: which events need a notification (see `berth_keeper::notify`), the config keys
//! (see [`crate::config::notify`]).
//! Start with [`notifier`]; `message` is the text, the other modules are channels.

mod command;
pub(crate) mod message;
mod signature;
mod terminal;
mod webhook;

use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

use berth_api::status::Timestamp;
use berth_api::{Problem, ProblemCode};
use berth_core::{NotificationKind, NotificationPolicy, SessionId};
use berth_host::clock;
use berth_store::SessionFiles;
use berth_store::notifications::{
    DeliveryOutcome, MOST_AT_WORK, NotableEvent, NotificationDelivery, NotificationDir, read_args,
};
use berth_store::{StateDir, killpoint};

use crate::config::{Config, notify::NotifyConfig, notify::WebhookConfig};
pub(crate) use message::EventNotification;

/// How long a notifier may live, even if a channel hangs.
const LIFETIME: Duration = Duration::from_secs(120);
/// How much longer than its channels it lives, to log their results.
const LAST_LINES: Duration = Duration::from_secs(10);
/// The variable that shortens [`LIFETIME`] for tests, in milliseconds. Not in release builds.
const LIFETIME_VARIABLE: &str = "BERTH_TEST_NOTIFIER_MS";

/// The result of one channel.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct DeliveryResult {
    pub(crate) outcome: DeliveryOutcome,
    /// Why it failed or was skipped, or where it was sent.
    pub(crate) detail: String,
    pub(crate) tries: u32,
}

impl DeliveryResult {
    pub(crate) fn sent(detail: impl Into<String>) -> Self {
        Self { outcome: DeliveryOutcome::Sent, detail: detail.into(), tries: 1 }
    }

    pub(crate) fn skipped(detail: impl Into<String>) -> Self {
        Self { outcome: DeliveryOutcome::Skipped, detail: detail.into(), tries: 0 }
    }

    pub(crate) fn failed(detail: impl Into<String>) -> Self {
        Self { outcome: DeliveryOutcome::Failed, detail: detail.into(), tries: 1 }
    }
}

/// A way to notify the user.
#[derive(Debug)]
pub(crate) enum NotifyChannel<'a> {
    Terminal,
    Desktop,
    Command(&'a [String]),
    Webhook(&'a str, &'a WebhookConfig),
}

impl<'a> NotifyChannel<'a> {
    /// The channels that the user configured.
    pub(crate) fn of(keys: &'a NotifyConfig) -> Vec<Self> {
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

    /// Sends a notification through this channel.
    pub(crate) fn tell(
        &self,
        keys: &NotifyConfig,
        home: &StateDir,
        told: &EventNotification,
        until: Instant,
    ) -> DeliveryResult {
        match self {
            Self::Terminal => terminal::tell(home, told, keys.terminal_style),
            Self::Desktop => command::desktop(told, keys.command_timeout, until),
            Self::Command(words) => command::run(words, told, keys.command_timeout, until),
            Self::Webhook(_, hook) => webhook::post(hook, told, until),
        }
    }
}

/// The time limit of all channels together.
pub(crate) fn lifetime() -> Duration {
    killpoint::patience(LIFETIME_VARIABLE, LIFETIME)
}

/// Runs the notifier. `args` are the arguments behind the hidden verb. Returns the exit code.
pub(crate) fn notifier(args: &[OsString]) -> u8 {
    let Some((place, told)) = read_args(args) else { return ProblemCode::Usage.exit_code() };
    // Processes that the user's command leaves behind stay our descendants, and so within the session, while we live.
    let _ = berth_host::process_tree::become_subreaper();
    let lifetime = lifetime();
    // Ends the process even if a name lookup, a disk or a program that cannot be killed hangs.
    std::thread::spawn(move || {
        std::thread::sleep(lifetime + LAST_LINES);
        std::process::exit(ProblemCode::TimedOut.exit_code().into());
    });
    match tell(place.as_os_str(), &told, Instant::now() + lifetime) {
        Ok(()) => 0,
        Err(problem) => problem.code.exit_code(),
    }
}

fn tell(place: &OsStr, told: &[NotableEvent], until: Instant) -> Result<(), Problem> {
    let (home, session) = SessionFiles::open(place)?;
    let id = session.id().clone();
    let desk = NotificationDir::open(&home)?;
    let first = told.first().copied();
    // From here on a failure can be logged.
    let noted = tell_at(&desk, &home, &id, told, until);
    if let (Err(problem), Some((event, occasion))) = (&noted, first) {
        let delivery = NotificationDelivery {
            at: Timestamp(clock::wall_ms()),
            session: id.to_string(),
            event,
            what: occasion.word().to_owned(),
            detail: problem.what.clone(),
            ..NotificationDelivery::default()
        };
        let _ = desk.note(&delivery);
    }
    noted
}

fn tell_at(
    desk: &NotificationDir,
    home: &StateDir,
    id: &SessionId,
    told: &[NotableEvent],
    until: Instant,
) -> Result<(), Problem> {
    let trouble = |what: &str, error: std::io::Error| {
        Problem::refused(format!("cannot {what} in {}: {error}", home.root().display()))
    };
    // Half of the time at most: the other half is for sending.
    let patience = until.saturating_duration_since(Instant::now()) / 2;
    let seat = desk.acquire_permit(patience).map_err(|error| trouble("take a notifier's seat", error))?;
    let Some(_seat) = seat else {
        let what = format!("{MOST_AT_WORK} other notifiers were busy all the time; no notification was sent");
        return Err(Problem::refused(what));
    };
    let config = Config::load()?;
    let keys = &config.notify;
    let channels = NotifyChannel::of(keys);
    let past = message::NotifiedSession::read(home, id)?;
    let wanted = match past.policy() {
        NotificationPolicy::AsConfigured => keys.on.clone(),
        NotificationPolicy::Only(occasions) => occasions,
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

/// Sends through all channels in parallel: a channel that hangs does not hold up the others, and a panic in one is a
/// failure like any other. `note` gets each result as soon as it is known.
pub(crate) fn tell_all(
    channels: &[NotifyChannel<'_>],
    keys: &NotifyConfig,
    home: &StateDir,
    told: &EventNotification,
    until: Instant,
    note: impl Fn(NotificationDelivery) + Sync,
) {
    std::thread::scope(|scope| {
        for channel in channels {
            scope.spawn(|| {
                let tell = || channel.tell(keys, home, told, until);
                // No state is kept that a panic may have left half changed.
                let came = std::panic::catch_unwind(std::panic::AssertUnwindSafe(tell));
                let came = came.unwrap_or_else(|_| {
                    DeliveryResult::failed("the channel failed unexpectedly: a bug in berth")
                });
                note(told.delivery(channel.name(), came));
            });
        }
    });
}

/// The most urgent of several events that happened together, of the kinds that are wanted: one event, one notification.
fn most_urgent(told: &[NotableEvent], wanted: &[NotificationKind]) -> Option<NotableEvent> {
    told.iter()
        .copied()
        .filter(|(_, occasion)| wanted.contains(occasion))
        .min_by_key(|(_, occasion)| *occasion)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_urgent_wanted_event_of_several_is_sent() {
        let told =
            [(5, NotificationKind::Failed), (6, NotificationKind::NeedsYou), (7, NotificationKind::Failed)];
        assert_eq!(most_urgent(&told, &NotificationKind::ALL), Some((6, NotificationKind::NeedsYou)));
        assert_eq!(most_urgent(&told, &[NotificationKind::Failed]), Some((5, NotificationKind::Failed)));
        assert_eq!(most_urgent(&told, &[NotificationKind::Finished]), None);
    }
}
