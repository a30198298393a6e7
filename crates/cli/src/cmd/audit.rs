//! `berth audit`: prints the audit log of the gateway.

use berth_api::Problem;
use berth_store::audit::{self, AuditEntry, AuditEvent, text_for_log};

use crate::args::AuditArgs;
use crate::ctx::CommandContext;
use crate::print;

pub(crate) fn run(ctx: &CommandContext, args: &AuditArgs) -> Result<u8, Problem> {
    let log = audit::read_audit_log(ctx.home.root())
        .map_err(|error| Problem::refused(format!("cannot read the audit log: {error}")))?;
    let since = args.since.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let from = since.map_or(0, |time| berth_host::clock::wall_ms().saturating_sub(time));
    let mut entries: Vec<&AuditEntry> = log.entries.iter().filter(|entry| entry.at.0 >= from).collect();
    let entries = entries.split_off(entries.len().saturating_sub(args.lines));
    if entries.is_empty() && !args.json {
        print::note("the audit log has no lines for that time");
    }
    let mut text = String::new();
    for entry in entries {
        text.push_str(&if args.json { object(entry)? } else { line(entry) });
        text.push('\n');
    }
    print::text(&text)?;
    if log.damaged > 0 {
        print::note(&format!("{} lines of the audit log are damaged and left out", log.damaged));
    }
    Ok(0)
}

/// An entry as one line of JSON. The file may have been edited, so control characters are removed here as well.
fn object(entry: &AuditEntry) -> Result<String, Problem> {
    let json = serde_json::to_string(entry)
        .map_err(|error| Problem::bug(format!("cannot print an entry: {error}")))?;
    Ok(json.chars().filter(|c| !c.is_control()).collect())
}

fn line(entry: &AuditEntry) -> String {
    let what = match &entry.event {
        AuditEvent::TokenMade { token, name, kind, scope, sessions, expires_at, .. } => {
            let of = sessions.as_ref().map(|ids| format!(" in {}", ids.join(", "))).unwrap_or_default();
            let end = expires_at.map_or("never ends".to_owned(), |end| format!("ends at {end}"));
            format!("made the {} `{name}` ({token}): {scope}{of}, {end}", kind.word())
        }
        AuditEvent::TokenUsed { token, name, kind, scope } => {
            format!("used the {} `{name}` ({token}): {scope}", kind.word())
        }
        AuditEvent::TokenRevoked { token, name, kind } => {
            format!("revoked the {} `{name}` ({token})", kind.word())
        }
        AuditEvent::TokenRefused { left_out } => {
            format!("was refused: the token is not valid{}", and_more(*left_out))
        }
        AuditEvent::RequestRefused { method, route, left_out } => {
            format!("was refused {method} {route}{}", and_more(*left_out))
        }
        AuditEvent::QuestionAnswered { session, name, tool, detail, choice } => {
            format!("answered `{choice}` to `{name}` ({session}): {tool}: {detail}")
        }
        AuditEvent::WriterTaken { session, name, from } => {
            format!("took the terminal of `{name}` ({session}) from {from}")
        }
        AuditEvent::ConversationTaken { session, name, conversation_id, ended } => {
            format!("took conversation {conversation_id} for `{name}` ({session}), and ended {ended}")
        }
    };
    format!("{}  {} {}", entry.at, text_for_log(&entry.by), what.replace(char::is_control, "\u{fffd}"))
}

fn and_more(left_out: u64) -> String {
    if left_out == 0 { String::new() } else { format!(" ({left_out} refusals before it were left out)") }
}
