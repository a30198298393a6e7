//! One line about a session, for lists: its words and its colour.
//!
//! Promise: texts of agents and users reach the terminal as one line without control sequences.
//! Start with [`ListingRow::of`].

use berth_api::{SessionState, SessionStatus, Timestamp, redact};

use crate::print;
use crate::safe_text::TextStyle;
use crate::text_width::one_line;

/// The cells of one line about a session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListingRow {
    /// The branches drawn before the session in a tree.
    pub lines: String,
    /// True for the current session of this terminal.
    pub is_current: bool,
    /// The name, else the id.
    pub session: String,
    /// Id in full, for keys that act on the session.
    pub id: String,
    /// The state, in a word.
    pub state: String,
    /// Time since the session was created.
    pub age: String,
    /// Time since the last activity.
    pub active: String,
    /// Number of turns that wait.
    pub queued: String,
    /// The tags, with commas.
    pub tags: String,
    /// The directory, short.
    pub dir: String,
    /// The git branch of the directory.
    pub branch: String,
    /// The model that the agent uses.
    pub model: String,
    /// The colour of the state; red if the last run failed by itself.
    pub paint: TextStyle,
    /// Present activity, question, note or end (see [`activity_text`]).
    pub doing: String,
}

impl ListingRow {
    /// The line about a session at the wall-clock time `now_ms`.
    pub fn of(status: &SessionStatus, now_ms: u64) -> Self {
        let queued = status.turns.as_ref().map_or(0, |turns| turns.queued.len());
        Self {
            session: one_line(status.handle()),
            id: status.id.clone(),
            state: one_line(&status.state.to_string()),
            age: age_text(status.created_at, now_ms),
            active: age_text(status.last_activity_at, now_ms),
            queued: if queued > 0 { queued.to_string() } else { String::new() },
            tags: one_line(&status.tags.join(",")),
            dir: directory_text(status),
            branch: one_line(status.branch.as_deref().unwrap_or_default()),
            model: one_line(status.model.as_deref().unwrap_or_default()),
            paint: if berth_verbs::format::is_failed(status) {
                TextStyle::Red
            } else {
                (&status.state).into()
            },
            doing: activity_text(status),
            ..Self::default()
        }
    }
}

/// The agent's question, else its activity or prompt, else the session's note, else the agent's last answer or prompt,
/// else the command; with how the run ended, if it failed. Lists and the dashboard show this text.
pub fn activity_text(status: &SessionStatus) -> String {
    let turns = status.turns.as_ref();
    let asks = turns.and_then(|turns| turns.asks.first()).map(|ask| match ask.detail.is_empty() {
        true => format!("asks: {}", ask.tool),
        false => format!("asks: {}: {}", ask.tool, ask.detail),
    });
    let held = || turns.and_then(|turns| turns.held.clone());
    let working = || turns.filter(|_| status.state == SessionState::Working);
    let does = || working().and_then(|turns| turns.activity.clone());
    // An agent that thinks, or that does not report its activity, still works on a prompt.
    let asked = || working().and_then(|turns| turns.prompt.as_ref()).map(|prompt| format!("> {prompt}"));
    if let Some(news) = asks.or_else(held).or_else(does).or_else(asked) {
        return one_line(&news);
    }
    let said = || status.last_answer.clone().or_else(|| Some(format!("> {}", status.last_prompt.as_ref()?)));
    let about = status.note.clone().or_else(said).unwrap_or_else(|| runs(status));
    let is_over =
        matches!(status.state, SessionState::Stopped | SessionState::Archived) && status.exit != Some(0);
    let ending = print::exit_summary(status).filter(|_| is_over);
    // In front, because a narrow terminal cuts the end of a line.
    one_line(&ending.map_or(about.clone(), |ending| format!("{ending} · {about}")))
}

/// The agent by name, else the command without the directory of its program.
fn runs(status: &SessionStatus) -> String {
    if let Some(agent) = &status.what.agent {
        return agent.clone();
    }
    let mut command = status.what.command.clone();
    if let Some(program) = command.first_mut()
        && let Some(name) = program.rsplit('/').next().filter(|name| !name.is_empty())
    {
        *program = name.to_owned();
    }
    redact::redact_command_line(&command)
}

/// The directory of a session, with `~` for the user's home.
pub fn directory_text(status: &SessionStatus) -> String {
    one_line(&short_dir(&status.what.cwd, std::env::var("HOME").ok().as_deref()))
}

/// How long ago, in one unit.
pub fn age_text(then: Timestamp, now_ms: u64) -> String {
    match now_ms.saturating_sub(then.0) {
        0..1000 => "now".to_owned(),
        ms => print::describe_age(ms),
    }
}

/// A directory, with `~` for the user's home.
pub fn short_home(dir: &str) -> String {
    short_dir(dir, std::env::var("HOME").ok().as_deref())
}

/// A directory, with `~` for `home`.
fn short_dir(dir: &str, home: Option<&str>) -> String {
    let home = home.filter(|home| home.len() > 1).map(|home| home.trim_end_matches('/'));
    match home.and_then(|home| dir.strip_prefix(home)) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
        Some(_) | None => dir.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_shortened_and_a_directory_with_its_prefix_is_not() {
        let short = |dir| short_dir(dir, Some("/home/ann"));
        assert_eq!((short("/home/ann"), short("/home/ann/src")), ("~".into(), "~/src".into()));
        assert_eq!(
            (short("/home/anna"), short("/srv/home/ann")),
            ("/home/anna".into(), "/srv/home/ann".into())
        );
        assert_eq!(short_dir("/home/ann/src", Some("/home/ann/")), "~/src");
        for nowhere in [None, Some(""), Some("/")] {
            assert_eq!(short_dir("/srv", nowhere), "/srv");
        }
    }
}
