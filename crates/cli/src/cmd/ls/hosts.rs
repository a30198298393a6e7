//! `berth ls --hosts`: the sessions of other hosts in the same list.
//!
//! Promise: which host a session is of is what was asked there, whatever the host says: two may say the same id, because
//! one was copied from the other or lies, and each row is of its own.

use std::collections::HashMap;

use berth_api::{Problem, Status};
use berth_verbs::hosts::{self, Look, PATIENCE};
use serde::Serialize;

use crate::ctx::Ctx;
use crate::listing::{Filter, Listing, Seen, ids, listing, look_at_all, shown};
use crate::print;

/// The list, and which host each session is of; those of this one are of none.
pub(super) struct Fleet {
    pub(super) listing: Listing,
    looks: Vec<Look>,
    /// The place in `looks`, by the id of a session as one types it here: `HOST:ID`.
    host_of: HashMap<String, usize>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Placed<'a> {
    host: Option<&'a str>,
    host_away: bool,
    host_age_ms: Option<u64>,
    #[serde(flatten)]
    status: Status,
}

impl Fleet {
    pub(super) fn collect(ctx: &Ctx, filter: &Filter) -> Result<Self, Problem> {
        let mut looks = hosts::look_at_all(&ctx.home, PATIENCE)?;
        let mut seen: Vec<Seen> = look_at_all(ctx, filter, &ids(ctx)?);
        let mut host_of = HashMap::new();
        let now_ms = berth_host::clock::wall_ms();
        for (at, look) in looks.iter_mut().enumerate() {
            for mut status in std::mem::take(&mut look.sessions) {
                status.id = placed(&look.host.name, &status.id);
                host_of.insert(status.id.clone(), at);
                seen.push(shown(filter, status, None, now_ms));
            }
        }
        Ok(Self { listing: listing(filter, seen), looks, host_of })
    }

    fn look(&self, status: &Status) -> Option<&Look> {
        self.host_of.get(&status.id).map(|at| &self.looks[*at])
    }

    /// Whether nobody knows what became of it since: its host is away.
    pub(super) fn is_away(&self, status: &Status) -> bool {
        self.look(status).is_some_and(|look| look.away.is_some())
    }

    /// What a session is called in the list.
    pub(super) fn called(&self, status: &Status) -> Option<String> {
        let named = |look: &Look| status.name.as_deref().map(|name| placed(&look.host.name, name));
        self.look(status).map(|look| named(look).unwrap_or_else(|| status.id.clone()))
    }

    pub(super) fn print_json(&self) -> Result<(), Problem> {
        let placed = |status: &Status| {
            let look = self.look(status);
            let mut status = status.clone();
            // There is a field for the host.
            let own = look.and_then(|look| status.id.strip_prefix(&placed(&look.host.name, "")));
            status.id = own.unwrap_or(&status.id).to_owned();
            Placed {
                host: look.map(|look| look.host.name.as_str()),
                host_away: look.is_some_and(|look| look.away.is_some()),
                host_age_ms: look.and_then(|look| look.age_ms),
                status,
            }
        };
        print::json(&self.listing.sessions.iter().map(placed).collect::<Vec<_>>())
    }

    /// Which hosts are away, and how old what is shown of them is.
    pub(super) fn remarks(&self) -> Vec<String> {
        let away = self.looks.iter().filter_map(|look| {
            let why = crate::width::one_line(look.away.as_deref()?);
            let name = &look.host.name;
            Some(match look.age_ms {
                Some(age) => {
                    format!("{name} is away ({why}): what is shown of it is {} old", print::age(age))
                }
                None => format!("{name} is away ({why}), and nothing is known of it"),
            })
        });
        let skew =
            self.looks.iter().filter_map(|look| Some(format!("{}: {}", look.host.name, look.skew.as_ref()?)));
        let beyond =
            self.looks.iter().filter(|look| look.beyond > 0).map(|look| {
                format!("{}: {} more sessions are only listed there", look.host.name, look.beyond)
            });
        away.chain(skew).chain(beyond).collect()
    }
}

/// Something of another host, as one types it here.
fn placed(host: &str, what: &str) -> String {
    format!("{host}:{what}")
}
