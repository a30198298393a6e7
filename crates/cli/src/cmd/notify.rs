//! `berth notify`: tests the channels of notifications, and prints the log of notifications.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use berth_api::{Problem, ProblemCode};
use berth_store::notifications::{DeliveryOutcome, NotificationDelivery, NotificationDir};

use crate::args::{NotifyArgs, NotifyLogArgs, NotifyTestArgs, NotifyVerb};
use crate::config::{self, Config};
use crate::ctx::CommandContext;
use crate::notify::message::NotifiedSession;
use crate::notify::{EventNotification, NotifyChannel, lifetime, tell_all};
use crate::print;

pub(crate) fn run(ctx: &CommandContext, args: &NotifyArgs) -> Result<u8, Problem> {
    match &args.verb {
        NotifyVerb::Test(args) => test(ctx, args),
        NotifyVerb::Log(args) => log(ctx, args),
    }
}

fn test(ctx: &CommandContext, args: &NotifyTestArgs) -> Result<u8, Problem> {
    let config = Config::load()?;
    let past = match &args.session {
        Some(session) => Some(NotifiedSession::read(&ctx.home, &ctx.find(session)?)?),
        None => None,
    };
    let mut channels = NotifyChannel::of(&config.notify);
    if channels.is_empty() {
        let place = config.path.as_deref().map(|path| format!(" in {}", path.display())).unwrap_or_default();
        return Err(Problem::refused(format!("no channel for notifications is set up{place}")).hint(
            "write `[notify]` and `desktop = true` there, for example; docs/notifications.md has more",
        ));
    }
    if let Some(wanted) = &args.channel {
        let names: Vec<String> = channels.iter().map(NotifyChannel::name).collect();
        channels.retain(|channel| channel.name() == *wanted);
        if channels.is_empty() {
            let what = format!("`{wanted}` is not set up{}", config::did_you_mean(wanted, &names));
            return Err(
                Problem::not_found(what).hint(format!("channels that are set up: {}", names.join(", ")))
            );
        }
    }
    let names: Vec<String> = channels.iter().map(NotifyChannel::name).collect();
    if names.iter().any(|name| name.starts_with("webhook")) {
        // A test uses the timeouts of real notifications, so it can take long.
        let most = print::describe_age(u64::try_from(lifetime().as_millis()).unwrap_or(u64::MAX));
        print::note(&format!(
            "trying {}; a channel that does not answer is given up after {most}",
            names.join(", ")
        ));
    }
    let notification = EventNotification::test(past.as_ref());
    let desk = NotificationDir::open(&ctx.home)?;
    let until = Instant::now() + lifetime();
    let deliveries = Mutex::new(Vec::new());
    tell_all(&channels, &config.notify, &ctx.home, &notification, until, |delivery| {
        // A failure to log the test must not fail the test.
        let _ = desk.note(&delivery);
        deliveries.lock().unwrap_or_else(PoisonError::into_inner).push(delivery);
    });
    let mut deliveries: Vec<NotificationDelivery> =
        deliveries.into_inner().unwrap_or_else(PoisonError::into_inner);
    deliveries.sort_by_key(|delivery| names.iter().position(|name| *name == delivery.channel));
    if args.json {
        print::json(&deliveries)?;
    } else {
        print::text(&table(&deliveries, false))?;
    }
    let failed = deliveries.iter().any(|delivery| delivery.outcome == DeliveryOutcome::Failed);
    Ok(if failed { ProblemCode::Refused.exit_code() } else { 0 })
}

fn log(ctx: &CommandContext, args: &NotifyLogArgs) -> Result<u8, Problem> {
    let read = NotificationDir::existing(&ctx.home).map(|desk| desk.deliveries()).transpose();
    let mut deliveries = read
        .map(Option::unwrap_or_default)
        .map_err(|error| Problem::refused(format!("cannot read the log of notifications: {error}")))?;
    if args.last > 0 {
        deliveries.drain(..deliveries.len().saturating_sub(args.last));
    }
    if args.json {
        print::json(&deliveries)?;
    } else if deliveries.is_empty() {
        print::note("no notifications were sent yet; `berth notify test` sends one");
    } else {
        print::text(&table(&deliveries, true))?;
    }
    Ok(0)
}

/// One line for each notification; with `past`, also its age and its session.
fn table(deliveries: &[NotificationDelivery], past: bool) -> String {
    let width = |of: fn(&NotificationDelivery) -> &str| {
        deliveries.iter().map(|delivery| of(delivery).chars().count()).max().unwrap_or_default()
    };
    let who = |delivery: &NotificationDelivery| -> String {
        delivery.name.clone().unwrap_or_else(|| delivery.session.clone())
    };
    let whos = deliveries.iter().map(|delivery| who(delivery).chars().count()).max().unwrap_or_default();
    let channels = width(|delivery| channel(delivery));
    let mut text = String::new();
    for delivery in deliveries {
        if past {
            let (ago, who) = (print::age_since(delivery.at), who(delivery));
            text.push_str(&format!("{ago:>8}  {who:whos$}  {:9}  ", delivery.what));
        }
        let tries = if delivery.tries > 1 { format!(" ({} tries)", delivery.tries) } else { String::new() };
        let detail = &delivery.detail;
        let line = format!("{:channels$}  {:7}  {detail}{tries}", channel(delivery), word(delivery.outcome));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn channel(delivery: &NotificationDelivery) -> &str {
    if delivery.channel.is_empty() { "-" } else { &delivery.channel }
}

fn word(outcome: DeliveryOutcome) -> &'static str {
    match outcome {
        DeliveryOutcome::Sent => "sent",
        DeliveryOutcome::Skipped => "skipped",
        DeliveryOutcome::Failed => "failed",
    }
}
