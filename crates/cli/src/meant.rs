//! Which session a person means: the one they name, else the current one.
//!
//! Promise: an argument comes first, then `--session`, then `BERTH_SESSION`, then the current session of this
//! terminal. Off a terminal no record of one is read or written. What is only implied says so, so that whoever
//! ends or deletes something can ask first.
//! Not here: the records (see `berth_store::terminals`), the asking (see `consent`).
//! Start with [`Ctx::target`].

use berth_api::{Code, Problem, Status};
use berth_core::SessionId;
use berth_keeper::terminal_here;
use berth_store::view;

use crate::args::Which;
use crate::ctx::Ctx;
use crate::listing::{self, Extent, Filter, Order};
use crate::{config, print};

/// The current session, as an argument.
pub(crate) const CURRENT: &str = "@";
/// The variable that names a session. A session's own processes have it.
const VARIABLE: &str = "BERTH_SESSION";

/// The session that is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Meant {
    pub(crate) id: SessionId,
    /// What to call it when talking to the person: as they did, if they named it.
    pub(crate) handle: String,
    pub(crate) how: How,
}

/// How it was said which session is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// By name or id: a named target is consent.
    Named,
    /// By conditions (`--tag`, `--name PATTERN`).
    Matched,
    /// By `BERTH_SESSION`.
    Env,
    /// Not at all: it is the current one of this terminal.
    Terminal,
}

impl Meant {
    /// Whether nobody named it: then whatever cannot be undone needs a yes.
    pub(crate) fn is_implied(&self) -> bool {
        match self.how {
            How::Named => false,
            How::Matched | How::Env | How::Terminal => true,
        }
    }
}

impl Ctx {
    /// The session that is meant by an argument that may be left out.
    pub(crate) fn target(&self, argument: Option<&str>) -> Result<Meant, Problem> {
        match argument.or(self.session.as_deref()) {
            // Helpers are always named.
            Some(CURRENT) if !self.home.is_helpers() => self.implied()?.ok_or_else(none_is_current),
            Some(text) => {
                let id = self.home.find(text).map_err(|problem| match problem.code {
                    Code::NotFound => match crate::remote::advice(&self.home, text) {
                        Some(advice) => problem.hint(advice),
                        None => self.with_guess(problem, text),
                    },
                    _ => problem,
                })?;
                print::call_as_typed(&id, text);
                Ok(Meant { id, handle: text.to_owned(), how: How::Named })
            }
            None => self.implied()?.ok_or_else(none_is_named),
        }
    }

    /// Adds the session whose name is spelled alike, if there is one.
    fn with_guess(&self, problem: Problem, text: &str) -> Problem {
        let names = self.home.names().unwrap_or_default();
        Problem { what: problem.what + &config::did_you_mean(text, &names), ..problem }
    }

    /// The sessions that are named, else those that match the conditions, else the current one. `extent` says how far back
    /// conditions reach. An error if nothing matches: a mistyped pattern must not look like success. A session that cannot
    /// be read is told, and makes the exit code in `worst`: nobody knows whether it matches.
    pub(crate) fn chosen(
        &self,
        arguments: &[String],
        which: &Which,
        extent: Extent,
        worst: &mut u8,
    ) -> Result<Vec<Meant>, Problem> {
        if !which.is_choosy() {
            return self.targets(arguments);
        }
        if self.session.is_some() {
            return Err(Problem::new(
                Code::Usage,
                "--session and conditions both say which session is meant",
            )
            .hint("leave one of them out"));
        }
        let filter = Filter { extent, order: Order::Active, ..crate::cmd::ls::conditions(which)? };
        let found = listing::collect(self, &filter)?;
        for problem in &found.damaged {
            print::problem(problem);
            *worst = problem.code.exit_code().max(*worst);
        }
        let meant = |status: Status| {
            let id = SessionId::parse(&status.id)?;
            Some(Meant { handle: status.handle().to_owned(), id, how: How::Matched })
        };
        let meant: Vec<Meant> = found.sessions.into_iter().filter_map(meant).collect();
        if meant.is_empty() {
            let all = if extent == Extent::Archived { "--archived" } else { "--all" };
            return Err(Problem::new(Code::NotFound, "no session matches; nothing was done")
                .hint(format!("`berth ls {all}` with the same conditions lists what matches")));
        }
        Ok(meant)
    }

    /// The same for a command whose arguments go on behind the session: with `--session` the first of them is
    /// no session. `what` is what has to follow.
    pub(crate) fn target_and(
        &self,
        first: &str,
        rest: &[String],
        what: &str,
    ) -> Result<(Meant, Vec<String>), Problem> {
        if self.session.is_some() {
            if first == CURRENT {
                return Err(twice(CURRENT));
            }
            let words = std::iter::once(first.to_owned()).chain(rest.iter().cloned()).collect();
            return Ok((self.target(None)?, words));
        }
        if rest.is_empty() {
            return Err(Problem::new(Code::Usage, format!("nothing follows `{first}`: {what} is missing"))
                .hint("the session comes first, by name or id; `@` is the current one"));
        }
        Ok((self.target(Some(first))?, rest.to_vec()))
    }

    /// The same for several. All are looked up first: a typing mistake must not leave half of them done.
    pub(crate) fn targets(&self, arguments: &[String]) -> Result<Vec<Meant>, Problem> {
        if arguments.is_empty() {
            return Ok(vec![self.target(None)?]);
        }
        arguments.iter().map(|text| self.target(Some(text))).collect()
    }

    /// The session, and the words behind it, of which there may be none: with `--session` all are words.
    pub(crate) fn target_then(
        &self,
        first: Option<&str>,
        rest: &[String],
    ) -> Result<(Meant, Vec<String>), Problem> {
        match first {
            Some(word) if self.session.is_some() => self.target_and(word, rest, "a word"),
            first => Ok((self.target(first)?, rest.to_vec())),
        }
    }

    /// The session a person means by this word.
    pub(crate) fn find(&self, text: &str) -> Result<SessionId, Problem> {
        Ok(self.target(Some(text))?.id)
    }

    /// The current session, if there is one, for whoever only wants to show it.
    pub(crate) fn current(&self) -> Option<SessionId> {
        self.implied_id().ok().flatten().map(|(id, _)| id)
    }

    /// Makes a session the current one of this terminal, if there is a person at it. Nothing is lost if that
    /// fails, but they should know what `@` still means.
    pub(crate) fn make_current(&self, id: &SessionId) {
        let Some(terminal) = terminal_here::here().filter(|_| terminal_here::is_in_front()) else { return };
        if let Err(problem) = self.home.set_current(&terminal, id) {
            print::problem(&problem);
        }
    }

    /// The current session: of `BERTH_SESSION`, else of this terminal.
    pub(crate) fn implied(&self) -> Result<Option<Meant>, Problem> {
        Ok(self.implied_id()?.map(|(id, how)| Meant { handle: self.handle(&id), id, how }))
    }

    fn implied_id(&self) -> Result<Option<(SessionId, How)>, Problem> {
        if let Some(text) = variable() {
            let id = self.home.find(&text).map_err(|problem| not_there(problem, &text))?;
            return Ok(Some((id, How::Env)));
        }
        let Some(terminal) = terminal_here::here() else { return Ok(None) };
        let Some(id) = self.home.current(&terminal)? else { return Ok(None) };
        if !self.home.session(&id).exists() {
            let what = format!("the current session of this terminal, {id}, is gone");
            return Err(Problem::new(Code::NotFound, what)
                .hint("`berth use S` makes another one current, `berth ls --all` lists what there is"));
        }
        Ok(Some((id, How::Terminal)))
    }

    /// What people call a session.
    pub(crate) fn handle(&self, id: &SessionId) -> String {
        view::status(&self.home, id).map_or_else(|_| id.to_string(), |status| status.handle().to_owned())
    }
}

/// An argument and --session that each name a session, where only one can be meant.
pub(crate) fn twice(argument: &str) -> Problem {
    Problem::new(Code::Usage, format!("`{argument}` and --session both say which session is meant"))
        .hint("leave one of them out")
}

/// The one word that may follow a session.
pub(crate) fn only<'a>(words: &'a [String], what: &str) -> Result<&'a str, Problem> {
    match words {
        [word] => Ok(word),
        _ => Err(Problem::new(Code::Usage, format!("one {what} is needed, not {}", words.len()))
            .hint("with --session the session is named already")),
    }
}

/// The session `BERTH_SESSION` names.
pub(crate) fn variable() -> Option<String> {
    std::env::var_os(VARIABLE).filter(|text| !text.is_empty()).map(|text| text.to_string_lossy().into_owned())
}

fn not_there(problem: Problem, text: &str) -> Problem {
    if problem.code != Code::NotFound {
        return problem;
    }
    Problem::new(Code::NotFound, format!("{VARIABLE} is `{text}`, and there is no such session here"))
        .hint(format!("name a session, or unset {VARIABLE}"))
}

fn none_is_current() -> Problem {
    let what = if terminal_here::here().is_some() {
        "this terminal has no current session"
    } else {
        "there is no current session: it belongs to a terminal, and there is none here"
    };
    Problem::new(Code::Usage, what).hint(way_out())
}

fn none_is_named() -> Problem {
    let what = if terminal_here::here().is_some() {
        "no session is named, and this terminal has no current one"
    } else {
        "no session is named"
    };
    Problem::new(Code::Usage, what).hint(way_out())
}

fn way_out() -> &'static str {
    if terminal_here::here().is_some() {
        "name one (`berth ls` lists them), or make one current with `berth use S`"
    } else {
        "name one: as an argument, with --session S, or with BERTH_SESSION=S"
    }
}
