//! One session in a line: the words and the colour.
//!
//! Promise: nothing of somebody else's reaches the terminal as a command to it, and every text is one line.
//! Start with [`Row::of`].

use berth_api::{SessionState, Status, Timestamp, redact};

use crate::print;
use crate::visible::Paint;
use crate::width::one_line;

/// What a line says about a session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Row {
    /// What is drawn before it in a tree.
    pub(crate) lines: String,
    /// Whether it is this terminal's current session.
    pub(crate) is_current: bool,
    /// The name, else the id.
    pub(crate) session: String,
    pub(crate) id: String,
    pub(crate) state: String,
    /// Since when there is one.
    pub(crate) age: String,
    /// Since when nothing happened.
    pub(crate) active: String,
    /// How many turns wait.
    pub(crate) queued: String,
    pub(crate) tags: String,
    pub(crate) dir: String,
    pub(crate) branch: String,
    pub(crate) model: String,
    /// The colour of the state; red if the last run failed by itself.
    pub(crate) paint: Paint,
    /// What it does, wants or is.
    pub(crate) doing: String,
}

impl Row {
    /// The words about a session at this time.
    pub(crate) fn of(status: &Status, now_ms: u64) -> Self {
        let queued = status.turns.as_ref().map_or(0, |turns| turns.queued.len());
        Self {
            session: one_line(status.handle()),
            id: status.id.clone(),
            state: one_line(&status.state.to_string()),
            age: ago(status.created_at, now_ms),
            active: ago(status.last_activity_at, now_ms),
            queued: if queued > 0 { queued.to_string() } else { String::new() },
            tags: one_line(&status.tags.join(",")),
            dir: dir_of(status),
            branch: one_line(status.branch.as_deref().unwrap_or_default()),
            model: one_line(status.model.as_deref().unwrap_or_default()),
            paint: if berth_verbs::words::is_failed(status) { Paint::Red } else { (&status.state).into() },
            doing: doing(status),
            ..Self::default()
        }
    }
}

/// What the agent asks, else what it does or was asked to do, else the session's note, else the agent's last answer or
/// prompt, else what it runs; how that ended, if not well. Lists and the dashboard say the same.
pub(crate) fn doing(status: &Status) -> String {
    let turns = status.turns.as_ref();
    let asks = turns.and_then(|turns| turns.asks.first()).map(|ask| match ask.detail.is_empty() {
        true => format!("asks: {}", ask.tool),
        false => format!("asks: {}: {}", ask.tool, ask.detail),
    });
    let held = || turns.and_then(|turns| turns.held.clone());
    let working = || turns.filter(|_| status.state == SessionState::Working);
    let does = || working().and_then(|turns| turns.activity.clone());
    // An agent that thinks, or that does not tell what it does, was still asked for something.
    let asked = || working().and_then(|turns| turns.prompt.as_ref()).map(|prompt| format!("> {prompt}"));
    if let Some(news) = asks.or_else(held).or_else(does).or_else(asked) {
        return one_line(&news);
    }
    let said = || status.last_answer.clone().or_else(|| Some(format!("> {}", status.last_prompt.as_ref()?)));
    let about = status.note.clone().or_else(said).unwrap_or_else(|| runs(status));
    let is_over =
        matches!(status.state, SessionState::Stopped | SessionState::Archived) && status.exit != Some(0);
    let ending = print::ending(status).filter(|_| is_over);
    // In front, because the end of a line is what a narrow terminal does not show.
    one_line(&ending.map_or(about.clone(), |ending| format!("{ending} · {about}")))
}

/// The agent from the table, else the command; where a program lies is nobody's question.
fn runs(status: &Status) -> String {
    if let Some(agent) = &status.what.agent {
        return agent.clone();
    }
    let mut command = status.what.command.clone();
    if let Some(program) = command.first_mut()
        && let Some(name) = program.rsplit('/').next().filter(|name| !name.is_empty())
    {
        *program = name.to_owned();
    }
    redact::command_line(&command)
}

/// Where it works, as people write it.
pub(crate) fn dir_of(status: &Status) -> String {
    one_line(&short_dir(&status.what.cwd, std::env::var("HOME").ok().as_deref()))
}

/// How long ago, in one unit.
pub(crate) fn ago(then: Timestamp, now_ms: u64) -> String {
    match now_ms.saturating_sub(then.0) {
        0..1000 => "now".to_owned(),
        ms => print::age(ms),
    }
}

/// A directory as people write it who have this home.
pub(crate) fn short_home(dir: &str) -> String {
    short_dir(dir, std::env::var("HOME").ok().as_deref())
}

/// A directory as people write it.
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
    fn a_home_is_shortened_and_what_only_begins_like_it_is_not() {
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
