//! `berth policy`: shows and sets a session's limits, archiving and notifications.

use berth_api::Problem;
use berth_api::message::KeeperRequest;
use berth_api::policy_change::PolicyChange;
use berth_api::turn::{OnFailed, OnUnknown};
use berth_core::{Command, NotificationPolicy};

use crate::args::{self, CONFIGURED, PolicyArgs};
use crate::ctx::CommandContext;
use crate::{lifecycle, print};

pub(crate) fn run(ctx: &CommandContext, args: &PolicyArgs) -> Result<u8, Problem> {
    let id = ctx.target(args.session.as_deref())?.id;
    let change = PolicyChange {
        idle: args.idle.unwrap_or_default(),
        ttl: args.ttl.unwrap_or_default(),
        archive_after: args.archive_after.unwrap_or_default(),
        on_unknown: args.on_unknown.map(on_unknown),
        on_failed: args.on_failed.map(on_failed),
        notify: args.notify.clone().map(Into::into),
    };
    if change != PolicyChange::default() {
        let command = Command::SetPolicy { change: change.clone().into() };
        lifecycle::change(ctx, &id, KeeperRequest::SetPolicy { change }, command)?;
    }
    let policy = ctx.known(&id)?.0.what.policy;
    if args.json {
        print::json(&policy)?;
        return Ok(0);
    }
    let time = |ms: Option<u64>| ms.map_or_else(|| "never".to_owned(), print::exact_duration);
    let behind_unknown = match policy.on_unknown {
        OnUnknown::Hold => "hold",
        OnUnknown::Continue => "continue",
    };
    print::text(&format!(
        "idle           {}\nttl            {}\narchive-after  {}\non-unknown     {behind_unknown}\non-failed      {}\nnotify         {}\n",
        time(policy.idle_ms),
        time(policy.ttl_ms),
        time(policy.archive_after_ms),
        policy.on_failed.word(),
        told_of(&policy.notify.0),
    ))?;
    Ok(0)
}

/// The occasions of notifications, as they are typed for `--notify`.
pub(crate) fn told_of(notify: &NotificationPolicy) -> String {
    match notify {
        NotificationPolicy::AsConfigured => CONFIGURED.to_owned(),
        NotificationPolicy::Only(occasions) if occasions.is_empty() => "none".to_owned(),
        NotificationPolicy::Only(occasions) => {
            occasions.iter().map(|occasion| occasion.word()).collect::<Vec<_>>().join(",")
        }
    }
}

/// The recorded form of `--on-failed`.
pub(crate) fn on_failed(typed: args::OnFailedArg) -> OnFailed {
    match typed {
        args::OnFailedArg::Hold => OnFailed::Hold,
        args::OnFailedArg::Continue => OnFailed::Continue,
        args::OnFailedArg::Retry => OnFailed::Retry,
    }
}

/// The recorded form of `--on-unknown`.
pub(crate) fn on_unknown(typed: args::OnUnknownArg) -> OnUnknown {
    match typed {
        args::OnUnknownArg::Hold => OnUnknown::Hold,
        args::OnUnknownArg::Continue => OnUnknown::Continue,
    }
}
