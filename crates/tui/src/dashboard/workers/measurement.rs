//! Measurements that no file contains: the memory of a session, when its output last grew, and if a signal suspended
//! its keeper.
//!
//! Promise: only sessions in view are measured, and memory so rarely that it takes less than half a percent of a
//! processor, with any number of processes.
//! Start with [`measure`].

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_core::SessionId;
use berth_host::identity;
use berth_procs::session_processes::{MemberProcesses, ProcessSnapshot};
use berth_store::session_status::modified_ms;
use berth_verbs::VerbContext;
use rustix::event::{PollFd, PollFlags, poll};

use super::super::model::SessionMeasurement;
use super::{DashboardMailbox, MeasuredSession, timespec};

/// How often the cheap measurements are made.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
/// The shortest time between two measurements of memory.
const MEMORY_INTERVAL: Duration = Duration::from_secs(5);
/// The pause after a measurement of memory, in multiples of the time that it took.
const PAUSE_FACTOR: u32 = 300;

pub(super) fn measure(ctx: &Arc<VerbContext>, mailbox: &DashboardMailbox) {
    let mut told: BTreeMap<SessionId, SessionMeasurement> = BTreeMap::new();
    let mut memory_due = Instant::now();
    // Sessions whose memory is known: they are measured again when it is due, and new ones in view soon.
    let mut measured: Vec<SessionId> = Vec::new();
    loop {
        let seen = mailbox.seen();
        let mut pulses: BTreeMap<SessionId, SessionMeasurement> =
            seen.iter().map(|seen| (seen.id.clone(), sample(ctx, seen))).collect();
        let now = Instant::now();
        let is_new = |seen: &MeasuredSession| !measured.contains(&seen.id);
        if !seen.is_empty() && (now >= memory_due || (seen.iter().any(is_new) && measured.is_empty())) {
            for (id, bytes) in memory(ctx, &seen) {
                if let Some(pulse) = pulses.get_mut(&id) {
                    pulse.memory_bytes = Some(bytes);
                }
            }
            measured = seen.iter().map(|seen| seen.id.clone()).collect();
            memory_due = Instant::now() + MEMORY_INTERVAL.max(now.elapsed() * PAUSE_FACTOR);
        }
        let news: Vec<(SessionId, SessionMeasurement)> = pulses
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
                *known = SessionMeasurement { memory_bytes, ..pulse.clone() };
            }
            mailbox.put(|inbox| inbox.pulses.extend(news));
        }
        // Without a session in view there is nothing to measure: wait for one.
        let often = timespec(SAMPLE_INTERVAL);
        let timeout = (!seen.is_empty()).then_some(&often);
        let _ = poll(&mut [PollFd::from_borrowed_fd(mailbox.pulse.as_fd(), PollFlags::IN)], timeout);
        mailbox.pulse.clear();
    }
}

fn sample(ctx: &VerbContext, seen: &MeasuredSession) -> SessionMeasurement {
    let file = seen.output_file.as_ref();
    let written = file.and_then(|file| ctx.home.session(&seen.id).output().metadata(file).ok());
    let written = written.as_ref().and_then(modified_ms);
    SessionMeasurement {
        memory_bytes: None,
        last_activity_at: written.unwrap_or(0),
        suspended: identity::process_stat(seen.keeper_pid).is_ok_and(|stat| matches!(stat.state, 'T' | 't')),
    }
}

/// The memory of each session, as `berth ps` counts it.
fn memory(ctx: &VerbContext, seen: &[MeasuredSession]) -> Vec<(SessionId, u64)> {
    let Ok(evidence) = ProcessSnapshot::gather() else { return vec![] };
    let bytes = |members: &MemberProcesses| {
        members.processes.iter().map(|member| memory_share(&member.process)).sum()
    };
    let of =
        |seen: &MeasuredSession| Some((seen.id.clone(), bytes(&evidence.members(&ctx.home, &seen.id).ok()?)));
    seen.iter().filter_map(of).collect()
}

/// The proportional share of memory, which can be added up; the resident size if the share may not be read.
fn memory_share(process: &identity::ProcessStat) -> u64 {
    let pss = process.open().and_then(|opened| opened.pss_bytes());
    pss.unwrap_or_else(|_| process.rss_bytes())
}
