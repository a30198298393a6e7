//! `berth purge`: sessions deleted for good.

use std::time::Duration;

use berth_api::{Code, Problem, Status};
use berth_core::SessionId;
use berth_keeper::{purge, view};
use serde::Serialize;

use crate::args::Purge;
use crate::cmd::archive::{is_at_rest, listed, sessions};
use crate::ctx::Ctx;
use crate::{consent, print, tty};

/// What is deleted of one session.
#[derive(Serialize)]
struct Doomed {
    id: String,
    name: Option<String>,
    key: Option<String>,
    state: String,
    bytes: u64,
    purged: bool,
    #[serde(skip)]
    session: SessionId,
    /// The last event that was looked at.
    #[serde(skip)]
    seen: u64,
}

impl Doomed {
    fn new(ctx: &Ctx, session: SessionId, status: Status) -> Self {
        let bytes = purge::size(&ctx.home, &session);
        let (name, key) = (status.name, status.what.key);
        Self {
            id: status.id,
            name,
            key,
            state: status.state,
            bytes,
            purged: false,
            session,
            seen: status.seq,
        }
    }

    fn handle(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }

    fn line(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(", the name `{name}`")).unwrap_or_default();
        let key = self.key.as_ref().map(|key| format!(", the key `{key}`")).unwrap_or_default();
        format!("{}  {:8}  {}{name}{key}", self.id, self.state, print::size(self.bytes))
    }
}

pub(crate) fn run(ctx: &Ctx, args: &Purge) -> Result<u8, Problem> {
    let mut doomed =
        if args.archived { archived(ctx, args.older_than)? } else { named(ctx, &args.sessions)? };
    if doomed.is_empty() {
        print::note("no session is archived, or none for so long; nothing was deleted");
    } else if args.dry_run && !args.json {
        print::text(&doomed.iter().map(|doomed| doomed.line() + "\n").collect::<String>())?;
    }
    if doomed.is_empty() || args.dry_run {
        return if args.json { print::json(&doomed).map(|()| 0) } else { Ok(0) };
    }
    if !args.yes && tty::can_ask() {
        doomed.iter().for_each(|doomed| print::note(&doomed.line()));
    }
    let bytes: u64 = doomed.iter().map(|doomed| doomed.bytes).sum();
    let handles: Vec<&str> = doomed.iter().map(Doomed::handle).collect();
    let what = format!("{}, {}, would be deleted for good", sessions(handles.len()), print::size(bytes));
    consent::ask(&format!("{what}: {}", listed(&handles)), args.yes)?;
    let mut worst = 0;
    for doomed in &mut doomed {
        // A yes is to what was shown: one that came back, or was put away anew, while we asked is another.
        match purge::purge(&ctx.home, &doomed.session, doomed.seen) {
            Ok(bytes) => {
                (doomed.purged, doomed.bytes) = (true, bytes);
                if !args.json {
                    print::note(&format!("{} is deleted, {}", doomed.handle(), print::size(bytes)));
                }
            }
            Err(problem) => {
                print::problem(&problem);
                worst = worst.max(problem.code.exit_code());
            }
        }
    }
    if args.json {
        print::json(&doomed)?;
    }
    Ok(worst)
}

/// Those a person named. One that runs, or cannot be told not to, is refused before anything is deleted.
fn named(ctx: &Ctx, texts: &[String]) -> Result<Vec<Doomed>, Problem> {
    let mut doomed: Vec<Doomed> = Vec::new();
    for text in texts {
        let id = ctx.find(text)?;
        let status = ctx.status(&id)?;
        if status.state != "archived" && !is_at_rest(&status) {
            let what = format!("session `{text}` is {}, and what runs is not purged", status.state);
            return Err(Problem::new(Code::Held, format!("{what}; nothing was deleted"))
                .hint(format!("end it with `berth stop {text}` first")));
        }
        // Named twice is meant once.
        if !doomed.iter().any(|known| known.session == id) {
            doomed.push(Doomed::new(ctx, id, status));
        }
    }
    Ok(doomed)
}

/// Those that were put away, for so long.
fn archived(ctx: &Ctx, older_than: Option<Duration>) -> Result<Vec<Doomed>, Problem> {
    let age_ms = older_than.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let now = berth_host::clock::wall_ms();
    let ids = ctx.home.session_ids().map_err(|error| {
        Problem::new(Code::Refused, format!("cannot list {}: {error}", ctx.home.sessions_dir().display()))
    })?;
    let is_meant = |status: &Status| {
        let age = status.archived_at.map(|at| now.saturating_sub(at.0));
        status.state == "archived" && age.is_some_and(|age| age >= age_ms)
    };
    let known = ids.into_iter().filter_map(|id| {
        // One that cannot be read is not known to be archived, and is kept.
        let status = view::status(&ctx.home, &id).ok().filter(is_meant)?;
        Some(Doomed::new(ctx, id, status))
    });
    Ok(known.collect())
}
