//! What no file tells: how much memory a session takes, when its output last grew, whether its keeper was
//! suspended by a signal.
//!
//! Promise: only sessions in view are measured, and memory so rarely that it takes less than half a percent of
//! a processor, however many processes there are.
//! Start with [`measure`].

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_core::SessionId;
use berth_host::identity;
use berth_keeper::members::{Evidence, Members};
use berth_store::view::modified_ms;
use rustix::event::{PollFd, PollFlags, poll};

use super::super::model::Pulse;
use super::{Mailbox, Seen, timespec};
use crate::ctx::Ctx;

/// How often the cheap signs are looked at.
const OFTEN: Duration = Duration::from_secs(2);
/// The shortest time between two measurements of memory.
const RARELY: Duration = Duration::from_secs(5);
/// A measurement that took this long is repeated after this many times that.
const PAUSE_FACTOR: u32 = 300;

pub(super) fn measure(ctx: &Arc<Ctx>, mailbox: &Mailbox) {
    let mut told: BTreeMap<SessionId, Pulse> = BTreeMap::new();
    let mut memory_due = Instant::now();
    // Whose memory is known is measured again when it is due; who came into view, soon.
    let mut measured: Vec<SessionId> = Vec::new();
    loop {
        let seen = mailbox.seen();
        let mut pulses: BTreeMap<SessionId, Pulse> =
            seen.iter().map(|seen| (seen.id.clone(), cheap_signs(ctx, seen))).collect();
        let now = Instant::now();
        let is_new = |seen: &Seen| !measured.contains(&seen.id);
        if !seen.is_empty() && (now >= memory_due || (seen.iter().any(is_new) && measured.is_empty())) {
            for (id, bytes) in memory(ctx, &seen) {
                if let Some(pulse) = pulses.get_mut(&id) {
                    pulse.memory_bytes = Some(bytes);
                }
            }
            measured = seen.iter().map(|seen| seen.id.clone()).collect();
            memory_due = Instant::now() + RARELY.max(now.elapsed() * PAUSE_FACTOR);
        }
        let news: Vec<(SessionId, Pulse)> = pulses
            .into_iter()
            .filter(|(id, pulse)| {
                let before = told.get(id);
                let same_memory = pulse.memory_bytes.is_none()
                    || before.is_some_and(|before| before.memory_bytes == pulse.memory_bytes);
                let same_rest = before.is_some_and(|before| {
                    (before.last_activity_at, before.suspended) == (pulse.last_activity_at, pulse.suspended)
                });
                !(same_memory && same_rest)
            })
            .collect();
        told.retain(|id, _| seen.iter().any(|seen| seen.id == *id));
        if !news.is_empty() {
            for (id, pulse) in &news {
                let known = told.entry(id.clone()).or_default();
                let memory_bytes = pulse.memory_bytes.or(known.memory_bytes);
                *known = Pulse { memory_bytes, ..pulse.clone() };
            }
            mailbox.put(|inbox| inbox.pulses.extend(news));
        }
        // With nobody in view there is nothing to measure until somebody is.
        let often = timespec(OFTEN);
        let timeout = (!seen.is_empty()).then_some(&often);
        let _ = poll(&mut [PollFd::from_borrowed_fd(mailbox.pulse.as_fd(), PollFlags::IN)], timeout);
        mailbox.pulse.clear();
    }
}

fn cheap_signs(ctx: &Ctx, seen: &Seen) -> Pulse {
    let file = seen.output_file.as_ref();
    let written = file.and_then(|file| ctx.home.session(&seen.id).output().metadata(file).ok());
    let written = written.as_ref().and_then(modified_ms);
    Pulse {
        memory_bytes: None,
        last_activity_at: written.unwrap_or(0),
        suspended: identity::stat(seen.keeper_pid).is_ok_and(|stat| matches!(stat.state, 'T' | 't')),
    }
}

/// What each costs: the same as `berth ps` adds up.
fn memory(ctx: &Ctx, seen: &[Seen]) -> Vec<(SessionId, u64)> {
    let Ok(evidence) = Evidence::gather() else { return vec![] };
    let bytes = |members: &Members| members.processes.iter().map(|member| share(&member.process)).sum();
    let of = |seen: &Seen| Some((seen.id.clone(), bytes(&evidence.members(&ctx.home, &seen.id).ok()?)));
    seen.iter().filter_map(of).collect()
}

/// The share of memory adds up; where it may not be seen, the size is the best there is.
fn share(process: &identity::ProcessStat) -> u64 {
    let pss = process.open().and_then(|opened| opened.pss_bytes());
    pss.unwrap_or_else(|_| process.rss_bytes())
}
