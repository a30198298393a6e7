//! `berth ls --hosts`: the sessions of other hosts in the same list.
//!
//! Promise: a session belongs to the host that listed it, and each host's session is a row of its own. Two hosts may
//! list the same session id, because one is a copy of the other or lies.
//! Start with [`MultiHostListing::collect`].

use std::collections::HashMap;

use berth_api::{Problem, SessionStatus};
use berth_verbs::hosts::{self, HostStatus, PATIENCE};
use serde::Serialize;

use crate::ctx::CommandContext;
use crate::listing::{ListingEntry, SessionFilter, SessionListing, ids, listed_entry, listing, look_at_all};
use crate::print;

/// A list with the host of each session. Sessions of this host have none.
pub(super) struct MultiHostListing {
    pub(super) listing: SessionListing,
    looks: Vec<HostStatus>,
    /// Index in `looks`, by the id of a session as it is typed on this host: `HOST:ID`.
    host_of: HashMap<String, usize>,
}

/// An object of `--json`.
#[derive(Serialize)]
struct HostSessionStatus<'a> {
    host: Option<&'a str>,
    host_away: bool,
    host_age_ms: Option<u64>,
    #[serde(flatten)]
    status: SessionStatus,
}

impl MultiHostListing {
    pub(super) fn collect(ctx: &CommandContext, filter: &SessionFilter) -> Result<Self, Problem> {
        let mut looks = hosts::all_host_statuses(&ctx.home, PATIENCE)?;
        let mut seen: Vec<ListingEntry> = look_at_all(ctx, filter, &ids(ctx)?);
        let mut host_of = HashMap::new();
        let now_ms = berth_host::clock::wall_ms();
        for (at, look) in looks.iter_mut().enumerate() {
            for mut status in std::mem::take(&mut look.sessions) {
                status.id = placed(&look.host.name, &status.id);
                host_of.insert(status.id.clone(), at);
                seen.push(listed_entry(filter, status, None, now_ms));
            }
        }
        Ok(Self { listing: listing(filter, seen), looks, host_of })
    }

    fn host_status(&self, status: &SessionStatus) -> Option<&HostStatus> {
        self.host_of.get(&status.id).map(|at| &self.looks[*at])
    }

    /// True if the session's host is away, so that its shown state may be out of date.
    pub(super) fn is_away(&self, status: &SessionStatus) -> bool {
        self.host_status(status).is_some_and(|look| look.away.is_some())
    }

    /// The name of a session in the list: `HOST:NAME` or `HOST:ID`; `None` for a session of this host.
    pub(super) fn called(&self, status: &SessionStatus) -> Option<String> {
        let named = |look: &HostStatus| status.name.as_deref().map(|name| placed(&look.host.name, name));
        self.host_status(status).map(|look| named(look).unwrap_or_else(|| status.id.clone()))
    }

    pub(super) fn print_json(&self) -> Result<(), Problem> {
        let placed = |status: &SessionStatus| {
            let look = self.host_status(status);
            let mut status = status.clone();
            // The host has a field of its own, so the id is printed without it.
            let own = look.and_then(|look| status.id.strip_prefix(&placed(&look.host.name, "")));
            status.id = own.unwrap_or(&status.id).to_owned();
            HostSessionStatus {
                host: look.map(|look| look.host.name.as_str()),
                host_away: look.is_some_and(|look| look.away.is_some()),
                host_age_ms: look.and_then(|look| look.age_ms),
                status,
            }
        };
        print::json(&self.listing.sessions.iter().map(placed).collect::<Vec<_>>())
    }

    /// Remarks about hosts that are away, with the age of their sessions, and about other versions of berth.
    pub(super) fn remarks(&self) -> Vec<String> {
        let away = self.looks.iter().filter_map(|look| {
            let why = crate::text_width::one_line(look.away.as_deref()?);
            let name = &look.host.name;
            Some(match look.age_ms {
                Some(age) => {
                    format!(
                        "{name} is away ({why}): its sessions are shown as of {} ago",
                        print::describe_age(age)
                    )
                }
                None => format!("{name} is away ({why}) and has not answered before"),
            })
        });
        let skew =
            self.looks.iter().filter_map(|look| Some(format!("{}: {}", look.host.name, look.skew.as_ref()?)));
        let more = self
            .looks
            .iter()
            .filter(|look| look.more > 0)
            .map(|look| format!("{}: {} more sessions are only listed there", look.host.name, look.more));
        away.chain(skew).chain(more).collect()
    }
}

/// A name or id of another host, as it is typed on this one.
fn placed(host: &str, what: &str) -> String {
    format!("{host}:{what}")
}
