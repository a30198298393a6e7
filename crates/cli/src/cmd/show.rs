//! `berth show`: prints the details of a session.

use berth_api::{Problem, SessionStatus};
use berth_core::Grant;
use berth_core::SessionId;
use berth_verbs::answer::QuestionId;

use crate::args::ShowArgs;
use crate::ctx::CommandContext;
use crate::print;
use crate::safe_text::SafeText;

pub(crate) fn run(ctx: &CommandContext, args: &ShowArgs) -> Result<u8, Problem> {
    let id = ctx.target(args.session.as_deref())?.id;
    let (status, trouble) = ctx.known(&id)?;
    if args.json {
        print::json(&status)?;
    } else {
        print::text(&lines(ctx, &status))?;
    }
    print::note_if_unresponsive(status.keeper_silent, status.handle());
    let Some(problem) = trouble else { return Ok(0) };
    print::problem(&problem);
    Ok(problem.code.exit_code())
}

fn lines(ctx: &CommandContext, status: &SessionStatus) -> SafeText {
    let mut rows = vec![("session", status.id.clone())];
    rows.extend(status.name.clone().map(|name| ("name", name)));
    if ctx.current().is_some_and(|id| id.as_str() == status.id) {
        rows.push(("current", "yes: `@` means it here".to_owned()));
    }
    rows.push(("state", status.state.to_string()));
    rows.extend(print::exit_summary(status).map(|ending| ("ended", ending)));
    rows.extend(status.archived_at.map(|at| ("archived", format!("{at} ({} ago)", print::age_since(at)))));
    if !status.tags.is_empty() {
        rows.push(("tags", status.tags.join(", ")));
    }
    rows.extend(status.note.clone().map(|note| ("note", note)));
    rows.push(("command", print::command_line(&status.what.command, 500)));
    rows.push(("directory", status.what.cwd.clone()));
    if !status.what.env_names.is_empty() {
        rows.push(("variables", status.what.env_names.join(", ")));
    }
    rows.extend(status.what.key.clone().map(|key| ("key", key)));
    rows.extend(status.what.parent.clone().map(|parent| ("started in", parent)));
    let grant = Grant::from(status.what.grant);
    if grant > Grant::Nothing {
        rows.push((
            "grant",
            format!("{grant}: rights of the session's processes over other sessions (docs/grants.md)"),
        ));
    }
    let run = if status.epoch == 0 { "none yet".to_owned() } else { status.epoch.to_string() };
    rows.push(("run", format!("{run} ({} driver)", status.what.driver)));
    rows.extend(status.pid.map(|pid| ("agent", format!("pid {pid}"))));
    rows.extend(status.keeper_pid.map(|pid| ("keeper", format!("pid {pid}"))));
    rows.extend(status.writer.as_ref().map(|writer| {
        ("writer", format!("pid {} ({}), since {}", writer.holder.pid, writer.holder.place, writer.since))
    }));
    for attached in &status.attached {
        let how = if attached.writes { "writer" } else { "observer" };
        rows.push(("attached", format!("{} ({how}), since {}", attached.place, attached.since)));
    }
    rows.push(("created", format!("{} ({} ago)", status.created_at, print::age_since(status.created_at))));
    rows.push((
        "active",
        format!("{} ({} ago)", status.last_activity_at, print::age_since(status.last_activity_at)),
    ));
    rows.push(("output", format!("{} bytes", status.output_bytes)));
    rows.extend(status.conversation_id.clone().map(|id| {
        let kind = if status.what.conversation.is_empty() { "agent" } else { &status.what.conversation };
        ("conversation", format!("{id} ({kind})"))
    }));
    rows.extend(status.model.clone().map(|model| ("model", model)));
    rows.extend(status.context.map(|context| ("context", context.to_string())));
    if let Some(turns) = &status.turns {
        rows.push(("turns", format!("{} in all, {} waiting", turns.total, turns.queued.len())));
        let doing = turns.activity.as_ref().map(|doing| format!(" ({doing})")).unwrap_or_default();
        rows.extend(turns.current.as_ref().map(|turn| ("working on", format!("{turn}{doing}"))));
        rows.extend(turns.held.clone().map(|held| ("held", held)));
        for ask in &turns.asks {
            let question = QuestionId::new(status.epoch, &ask.request);
            rows.push(("asks", format!("{} ({question}): {}", ask.tool, ask.detail)));
            let options = ask.options.iter().map(|option| format!("{} ({})", option.id, option.name));
            rows.push(("", options.collect::<Vec<_>>().join(" · ")));
        }
        rows.extend(
            turns.releases_in_ms.map(|ms| ("pauses", format!("in {}, if idle", print::describe_age(ms)))),
        );
    }
    rows.extend(status.released.clone().map(|why| ("ended", why)));
    rows.extend(status.expires_in_ms.map(|ms| ("expires", format!("in {}", print::describe_age(ms)))));
    let at_rest = status.what.policy.archive_after_ms.filter(|_| status.archived_at.is_none());
    rows.extend(at_rest.map(|ms| ("archives", format!("after {} at rest", print::exact_duration(ms)))));
    let id = SessionId::parse(&status.id);
    rows.extend(id.map(|id| ("record", ctx.home.session(&id).display().to_string())));
    rows.extend(status.left.iter().map(|left| ("left over", left.clone())));
    print::key_value_lines(rows, (&status.state).into())
}
