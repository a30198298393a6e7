//! `berth helper ls`: lists the helpers.

use berth_api::helper::HelperStatus;
use berth_api::{Problem, ProblemCode, SessionState, SessionStatus};

use crate::args::HelperLsArgs;
use crate::ctx::CommandContext;
use crate::print;
use crate::safe_text::{SafeText, TextStyle};

/// Limit of owners that a line names.
const NAMED_OWNERS: usize = 2;

pub(crate) fn run(helpers: &CommandContext, args: &HelperLsArgs) -> Result<u8, Problem> {
    let all = berth_verbs::helper::list_helpers(helpers)?;
    let damaged = all.damaged;
    let (listed, stopped): (Vec<SessionStatus>, Vec<SessionStatus>) =
        all.helpers.into_iter().partition(|status| args.all || status.state != SessionState::Stopped);
    let stopped = stopped.len();
    if args.json {
        print::json(&listed)?;
    } else {
        print::text(&table(&listed))?;
        if stopped > 0 && listed.is_empty() {
            print::note(&format!("no helper is up; {stopped} are stopped: `berth helper ls --all`"));
        } else if listed.is_empty() {
            print::note("no helpers yet: `berth helper ensure NAME -- COMMAND` starts one");
        }
    }
    for problem in &damaged {
        print::problem(problem);
    }
    Ok(if damaged.is_empty() { 0 } else { ProblemCode::Refused.exit_code() })
}

/// The owners of a helper, in a few words.
pub(super) fn owners(status: &SessionStatus, helper: &HelperStatus) -> String {
    if !helper.owners_known {
        return "none known".to_owned();
    }
    let name = |owner: &berth_api::helper::OwnerStatus| owner.name.clone().unwrap_or(owner.session.clone());
    let mut names: Vec<String> = helper.owners.iter().take(NAMED_OWNERS).map(name).collect();
    let more = helper.owners.len().saturating_sub(NAMED_OWNERS);
    names.extend((more > 0).then(|| format!("+{more}")));
    match (names.is_empty(), helper.lingers) {
        (false, _) => names.join(", "),
        (true, true) => "none, lingers".to_owned(),
        (true, false) if status.state == SessionState::Running => "none".to_owned(),
        (true, false) => "-".to_owned(),
    }
}

fn is_unready(status: &SessionStatus) -> bool {
    status.state == SessionState::Running && status.helper.as_ref().is_none_or(|helper| !helper.ready)
}

fn table(listed: &[SessionStatus]) -> SafeText {
    if listed.is_empty() {
        return SafeText::default();
    }
    let row = |status: &SessionStatus| {
        let helper = status.helper.clone().unwrap_or_default();
        let place = helper.dir.clone().unwrap_or_else(|| helper.scope.clone());
        let state = if is_unready(status) { "unready".to_owned() } else { status.state.to_string() };
        let started_at = status.started_at.filter(|_| status.state != SessionState::Stopped);
        let age = print::age_since(started_at.unwrap_or(status.created_at));
        let address = helper.address.clone().unwrap_or_else(|| "-".to_owned());
        [helper.name.clone(), place, state, owners(status, &helper), age, address]
    };
    let head = ["NAME", "SCOPE/DIR", "STATE", "OWNERS", "AGE", "ADDRESS"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(listed.iter().map(row)).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    let screen = crate::tty::terminal_size().map_or(usize::MAX, |size| usize::from(size.cols));
    let room = screen.saturating_sub(widths.iter().sum::<usize>() + 2 * 6).max(10);
    let commands = listed.iter().map(|status| print::command_line(&status.what.command, room));
    let mut text = SafeText::default();
    for (at, (row, command)) in
        rows.iter().zip(std::iter::once("COMMAND".to_owned()).chain(commands)).enumerate()
    {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let padded = format!("{cell:width$}", width = *width);
            let status = listed.get(at.wrapping_sub(1)).filter(|_| column == 2);
            text.push(status.map_or(padded.clone().into(), |status| {
                let paint = if is_unready(status) { TextStyle::Dim } else { (&status.state).into() };
                print::painted(paint, cell, *width)
            }));
            text.push("  ");
        }
        text.push(command + "\n");
    }
    text
}
