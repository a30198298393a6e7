//! Finds the session that a user means: the one they name, else the current one.
//!
//! Promise: an argument comes first, then `--session`, then `BERTH_SESSION`, then the current session of this terminal.
//! Off a terminal no record of a current session is read or written. An implied session is marked as such, so that code
//! that ends or deletes something can ask first.
//! Not here: the records (see `berth_store::current_session`), the asking (see `consent`).
//! Start with [`CommandContext::target`].

use berth_api::{Problem, ProblemCode, SessionStatus};
use berth_core::SessionId;
use berth_procs::own_terminal;
use berth_store::session_status;

use crate::args::SessionFilterArgs;
use crate::ctx::CommandContext;
use crate::listing::{self, ListExtent, ListOrder, SessionFilter};
use crate::{config, print};

/// The current session, as an argument.
pub(crate) const CURRENT: &str = "@";
/// The variable that names a session. Processes of a session have it set.
const VARIABLE: &str = "BERTH_SESSION";

/// The session that the user means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TargetSession {
    pub(crate) id: SessionId,
    /// Name of the session in messages: as the user typed it, if they did.
    pub(crate) handle: String,
    pub(crate) how: TargetSource,
}

/// How the user chose the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TargetSource {
    /// By name or id: a named target is consent.
    Named,
    /// By conditions (`--tag`, `--name PATTERN`).
    Matched,
    /// By the variable `BERTH_SESSION`.
    Env,
    /// Implied: it is the current session of this terminal.
    Terminal,
}

impl TargetSession {
    /// True if the user did not name the session: then an action that cannot be undone needs a yes.
    pub(crate) fn is_implied(&self) -> bool {
        match self.how {
            TargetSource::Named => false,
            TargetSource::Matched | TargetSource::Env | TargetSource::Terminal => true,
        }
    }
}

impl CommandContext {
    /// The session of an argument that may be left out.
    pub(crate) fn target(&self, argument: Option<&str>) -> Result<TargetSession, Problem> {
        match argument.or(self.session.as_deref()) {
            // Helpers are always named.
            Some(CURRENT) if !self.home.is_helpers() => self.current_session()?.ok_or_else(none_is_current),
            Some(text) => {
                let id = self.home.find(text).map_err(|problem| match problem.code {
                    ProblemCode::NotFound => match crate::remote::advice(&self.home, text) {
                        Some(advice) => problem.hint(advice),
                        None => self.with_similar_name(problem, text),
                    },
                    _ => problem,
                })?;
                print::name_session_as_typed(&id, text);
                Ok(TargetSession { id, handle: text.to_owned(), how: TargetSource::Named })
            }
            None => self.current_session()?.ok_or_else(none_is_named),
        }
    }

    /// Adds to a problem the session whose name is spelled alike, if there is one.
    fn with_similar_name(&self, problem: Problem, text: &str) -> Problem {
        let names = self.home.names().unwrap_or_default();
        Problem { what: problem.what + &config::did_you_mean(text, &names), ..problem }
    }

    /// The sessions that are named, else those that match the conditions, else the current one. `extent` says how far
    /// back conditions reach. An error if nothing matches: a mistyped pattern must not look like success. A session
    /// that cannot be read is reported and sets the exit code in `worst`, because it might match.
    pub(crate) fn chosen(
        &self,
        arguments: &[String],
        which: &SessionFilterArgs,
        extent: ListExtent,
        worst: &mut u8,
    ) -> Result<Vec<TargetSession>, Problem> {
        if !which.is_choosy() {
            return self.targets(arguments);
        }
        if self.session.is_some() {
            return Err(
                Problem::usage("--session and conditions both choose sessions").hint("leave one of them out")
            );
        }
        let filter = SessionFilter { extent, order: ListOrder::Active, ..crate::cmd::ls::conditions(which)? };
        let found = listing::collect(self, &filter)?;
        for problem in &found.damaged {
            print::problem(problem);
            *worst = problem.code.exit_code().max(*worst);
        }
        let meant = |status: SessionStatus| {
            let id = SessionId::parse(&status.id)?;
            Some(TargetSession { handle: status.handle().to_owned(), id, how: TargetSource::Matched })
        };
        let meant: Vec<TargetSession> = found.sessions.into_iter().filter_map(meant).collect();
        if meant.is_empty() {
            let all = if extent == ListExtent::Archived { "--archived" } else { "--all" };
            return Err(Problem::not_found("no session matches; nothing was done")
                .hint(format!("`berth ls {all}` with the same conditions lists what matches")));
        }
        Ok(meant)
    }

    /// As [`CommandContext::target`], for a command with more arguments behind the session: with `--session` the first of them is
    /// not a session. `what` names the argument that has to follow.
    pub(crate) fn target_and(
        &self,
        first: &str,
        rest: &[String],
        what: &str,
    ) -> Result<(TargetSession, Vec<String>), Problem> {
        if self.session.is_some() {
            if first == CURRENT {
                return Err(named_twice(CURRENT));
            }
            let words = std::iter::once(first.to_owned()).chain(rest.iter().cloned()).collect();
            return Ok((self.target(None)?, words));
        }
        if rest.is_empty() {
            return Err(Problem::usage(format!("nothing follows `{first}`: {what} is missing"))
                .hint("the session comes first, by name or id; `@` is the current one"));
        }
        Ok((self.target(Some(first))?, rest.to_vec()))
    }

    /// As [`CommandContext::target`], for several sessions. All are looked up first: a typing mistake
    /// must not leave half of them done.
    pub(crate) fn targets(&self, arguments: &[String]) -> Result<Vec<TargetSession>, Problem> {
        if arguments.is_empty() {
            return Ok(vec![self.target(None)?]);
        }
        arguments.iter().map(|text| self.target(Some(text))).collect()
    }

    /// The session and the words behind it, if any. With `--session` all are words.
    pub(crate) fn target_then(
        &self,
        first: Option<&str>,
        rest: &[String],
    ) -> Result<(TargetSession, Vec<String>), Problem> {
        match first {
            Some(word) if self.session.is_some() => self.target_and(word, rest, "a word"),
            first => Ok((self.target(first)?, rest.to_vec())),
        }
    }

    /// Finds a session by name or id, or `@` for the current one.
    pub(crate) fn find(&self, text: &str) -> Result<SessionId, Problem> {
        Ok(self.target(Some(text))?.id)
    }

    /// The current session, if there is one, for callers that only show it.
    pub(crate) fn current(&self) -> Option<SessionId> {
        self.implied_id().ok().flatten().map(|(id, _)| id)
    }

    /// The current session: of `BERTH_SESSION`, else of this terminal.
    pub(crate) fn current_session(&self) -> Result<Option<TargetSession>, Problem> {
        Ok(self.implied_id()?.map(|(id, how)| TargetSession { handle: self.handle(&id), id, how }))
    }

    fn implied_id(&self) -> Result<Option<(SessionId, TargetSource)>, Problem> {
        if let Some(text) = session_from_env() {
            let id = self.home.find(&text).map_err(|problem| not_found(problem, &text))?;
            return Ok(Some((id, TargetSource::Env)));
        }
        let Some(terminal) = own_terminal::own_terminal() else { return Ok(None) };
        let Some(id) = self.home.current(&terminal)? else { return Ok(None) };
        if !self.home.session(&id).exists() {
            let what = format!("the current session of this terminal, {id}, is gone");
            return Err(Problem::not_found(what)
                .hint("`berth use S` makes another one current, `berth ls --all` lists all sessions"));
        }
        Ok(Some((id, TargetSource::Terminal)))
    }

    /// The name of a session for messages: its name, else its id.
    pub(crate) fn handle(&self, id: &SessionId) -> String {
        session_status::status(&self.home, id)
            .map_or_else(|_| id.to_string(), |status| status.handle().to_owned())
    }
}

/// Error: an argument and --session both name a session, and only one can be meant.
pub(crate) fn named_twice(argument: &str) -> Problem {
    Problem::usage(format!("`{argument}` and --session both name a session")).hint("leave one of them out")
}

/// The one word that must follow a session.
pub(crate) fn single_word<'a>(words: &'a [String], what: &str) -> Result<&'a str, Problem> {
    match words {
        [word] => Ok(word),
        _ => Err(Problem::usage(format!("one {what} is needed, not {}", words.len()))
            .hint("--session names the session; leave the argument out")),
    }
}

/// The value of `BERTH_SESSION`.
pub(crate) fn session_from_env() -> Option<String> {
    std::env::var_os(VARIABLE).filter(|text| !text.is_empty()).map(|text| text.to_string_lossy().into_owned())
}

fn not_found(problem: Problem, text: &str) -> Problem {
    if problem.code != ProblemCode::NotFound {
        return problem;
    }
    Problem::not_found(format!("{VARIABLE} is `{text}`, and no session has this name or id"))
        .hint(format!("name a session, or unset {VARIABLE}"))
}

fn none_is_current() -> Problem {
    let what = if own_terminal::own_terminal().is_some() {
        "this terminal has no current session"
    } else {
        "there is no current session: it belongs to a terminal, and there is none here"
    };
    Problem::usage(what).hint(current_session_hint())
}

fn none_is_named() -> Problem {
    let what = if own_terminal::own_terminal().is_some() {
        "no session is named, and this terminal has no current one"
    } else {
        "no session is named"
    };
    Problem::usage(what).hint(current_session_hint())
}

fn current_session_hint() -> &'static str {
    if own_terminal::own_terminal().is_some() {
        "name one (`berth ls` lists them), or make one current with `berth use S`"
    } else {
        "name one: as an argument, with --session S, or with BERTH_SESSION=S"
    }
}
