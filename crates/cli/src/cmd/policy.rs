//! `berth policy`: when a session ends and is archived by itself, and what people are told of it.

use berth_api::Problem;
use berth_api::life::PolicyChange;
use berth_api::message::Request;
use berth_api::turn::{OnFailed, OnUnknown};
use berth_core::{Command, Notify};

use crate::args::{self, CONFIGURED, Policy};
use crate::ctx::Ctx;
use crate::{life, print};

pub(crate) fn run(ctx: &Ctx, args: &Policy) -> Result<u8, Problem> {
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
        life::change(ctx, &id, Request::SetPolicy { change }, command)?;
    }
    let policy = ctx.known(&id)?.0.what.policy;
    if args.json {
        print::json(&policy)?;
        return Ok(0);
    }
    let time = |ms: Option<u64>| ms.map_or_else(|| "never".to_owned(), print::span);
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

/// What people are told of, as they would type it.
pub(crate) fn told_of(notify: &Notify) -> String {
    match notify {
        Notify::AsConfigured => CONFIGURED.to_owned(),
        Notify::Only(occasions) if occasions.is_empty() => "none".to_owned(),
        Notify::Only(occasions) => {
            occasions.iter().map(|occasion| occasion.word()).collect::<Vec<_>>().join(",")
        }
    }
}

/// What was typed, on paper.
pub(crate) fn on_failed(typed: args::OnFailed) -> OnFailed {
    match typed {
        args::OnFailed::Hold => OnFailed::Hold,
        args::OnFailed::Continue => OnFailed::Continue,
        args::OnFailed::Retry => OnFailed::Retry,
    }
}

/// What was typed, on paper.
pub(crate) fn on_unknown(typed: args::OnUnknown) -> OnUnknown {
    match typed {
        args::OnUnknown::Hold => OnUnknown::Hold,
        args::OnUnknown::Continue => OnUnknown::Continue,
    }
}
