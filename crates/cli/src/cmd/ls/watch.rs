//! `berth ls --watch`: the list, kept up to date.
//!
//! Promise: the list is drawn again after a change, and once a second for the ages; in between the process sleeps. The
//! terminal is restored at every end of the command. Off a terminal, --json prints a line for each session that
//! changed, and `{"gone":ID}` for a session that is no longer listed.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use berth_api::{Problem, SessionStatus};
use berth_host::signals::SignalFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::stdio::stdin;

use super::{hidden_sessions_notes, rendered};
use crate::args::LsArgs;
use crate::ctx::CommandContext;
use crate::listing::SessionFilter;
use crate::listing::live_listing::LiveListing;
use crate::listing::table::TableFormat;
use crate::safe_text::{SafeText, TextStyle};
use crate::{print, text_width, tty};

/// Time for which news are collected before the sessions are read: news come in bursts, and the news of a keeper's end
/// arrives a moment before its lease is free.
const GATHER: Duration = Duration::from_millis(60);
/// Interval at which the ages are drawn again.
const TICK: Duration = Duration::from_secs(1);

pub(super) fn run(ctx: &CommandContext, args: &LsArgs, filter: SessionFilter) -> Result<u8, Problem> {
    let usage = |what: &str, hint: &str| Err(Problem::usage(what).hint(hint));
    match (args.json, args.tree) {
        (true, true) => {
            return usage(
                "--watch --json prints single sessions, and --tree needs the whole list",
                "leave --tree out",
            );
        }
        (true, false) => return lines(LiveListing::begin(ctx, filter)?),
        (false, _) if !tty::is_interactive() => {
            return usage("--watch needs a terminal", "programs use `berth ls --watch --json`");
        }
        (false, _) => {}
    }
    let wanted = [Signal::WINCH, Signal::HUP, Signal::TERM, Signal::INT].map(Signal::as_raw);
    let cannot = |what: &str, error: &std::io::Error| {
        Problem::refused(format!("cannot {what}: {error}")).hint("`berth ls` prints the list once")
    };
    let signals = SignalFd::new(&wanted).map_err(|error| cannot("listen to signals", &error))?;
    let mut live = LiveListing::begin(ctx, filter)?;
    let raw = tty::RawMode::enter().map_err(|error| cannot("prepare the terminal", &error))?;
    // The alternate screen, so that the old content comes back at the end; the cursor is hidden.
    tty::set_active_screen(berth_screen::ActiveScreen::Alternate);
    tty::write_before_exit(b"\x1b[?1049h\x1b[?25l");
    let left = watch(ctx, args, &mut live, &signals);
    drop(raw);
    left
}

/// The reasons why a wait returned.
#[derive(Default)]
struct ListingWakeup {
    has_news: bool,
    is_over: Option<u8>,
}

fn watch(
    ctx: &CommandContext,
    args: &LsArgs,
    live: &mut LiveListing<'_>,
    signals: &SignalFd,
) -> Result<u8, Problem> {
    let mut news_at: Option<Instant> = None;
    let mut tick_at = Instant::now() + TICK;
    let mut last = SafeText::default();
    loop {
        let picture = picture(ctx, args, live)?;
        // An unchanged picture is not sent again, which saves bandwidth over ssh.
        if picture != last {
            // One synchronized update where the terminal supports it, drawn over the old picture: nothing flickers.
            let rows = picture.as_str().replace('\n', "\x1b[K\r\n");
            tty::write_before_exit(format!("\x1b[?2026h\x1b[H{rows}\x1b[K\x1b[J\x1b[?2026l").as_bytes());
            last = picture;
        }
        loop {
            let now = Instant::now();
            let due = news_at.map_or(tick_at, |at| at.min(tick_at));
            if now >= due {
                break;
            }
            let woken = wait(live, signals, news_at.is_none(), due - now);
            if let Some(code) = woken.is_over {
                return Ok(code);
            }
            if woken.has_news {
                news_at.get_or_insert_with(|| Instant::now() + GATHER);
            }
            if !woken.has_news && woken.is_over.is_none() && Instant::now() < due {
                // The terminal has a new size, or a key without a meaning was pressed.
                break;
            }
        }
        if news_at.is_some_and(|at| at <= Instant::now()) {
            news_at = None;
            live.take_news()?;
        }
        if tick_at <= Instant::now() {
            live.tick()?;
            // Counted from now, not from the time it was due: a suspended process does not catch up on missed ticks.
            tick_at = Instant::now() + TICK;
        }
    }
}

fn wait(live: &LiveListing<'_>, signals: &SignalFd, for_news: bool, patience: Duration) -> ListingWakeup {
    let mut woken = ListingWakeup::default();
    let mut fds = vec![
        PollFd::from_borrowed_fd(stdin(), PollFlags::IN),
        PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
    ];
    // While news are being collected, further news need no wake-up.
    if for_news {
        fds.extend(live.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    }
    let patience = Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    if poll(&mut fds, Some(&patience)).is_err() {
        return woken;
    }
    let is_ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    if is_ready[1]
        && let Ok(Some(signal)) = signals.read()
        && signal != Signal::WINCH.as_raw()
    {
        woken.is_over = Some(u8::try_from(128 + signal).unwrap_or(255));
    }
    if is_ready[0] {
        let mut keys = [0; 64];
        match rustix::io::read(stdin(), &mut keys) {
            // The terminal is gone.
            Ok(0) | Err(rustix::io::Errno::IO) => woken.is_over = Some(128 + 1),
            // The keys q, Ctrl-C, Ctrl-D, and a lone Escape leave.
            Ok(count)
                if keys[..count].iter().any(|key| matches!(key, b'q' | 3 | 4)) || keys[..count] == [27] =>
            {
                woken.is_over = Some(0);
            }
            Ok(_) | Err(_) => {}
        }
    }
    woken.has_news = is_ready.get(2) == Some(&true);
    woken
}

/// The whole screen, row by row.
fn picture(ctx: &CommandContext, args: &LsArgs, live: &LiveListing<'_>) -> Result<SafeText, Problem> {
    let size = tty::terminal_size().unwrap_or_default();
    let (rows, columns) = (usize::from(size.rows).max(2), usize::from(size.cols).max(2));
    let colour = tty::wants_colour();
    let mut listing = live.listing();
    let mut lines = rendered(ctx, args, &mut listing, None, TableFormat { columns: Some(columns), colour })?;
    let mut status_line = hidden_sessions_notes(args, &listing);
    status_line.extend(listing.damaged.iter().map(|problem| format!("error: {}", problem.what)));
    let room = rows - 1;
    if lines.len() > room {
        status_line.insert(0, format!("{} more than fit", lines.len() - room));
        lines.truncate(room);
    }
    status_line.push("q leaves".to_owned());
    let status_line = text_width::cut_to_columns(&text_width::one_line(&status_line.join(" · ")), columns);
    lines.resize(room, SafeText::default());
    lines.push(SafeText::painted(TextStyle::Dim, status_line, colour));
    Ok(SafeText::joined(lines, "\n"))
}

/// Prints all sessions, then each change, as lines of JSON, until the reader closes standard output.
fn lines(mut live: LiveListing<'_>) -> Result<u8, Problem> {
    let mut told: BTreeMap<String, SessionStatus> = BTreeMap::new();
    loop {
        let listing = live.listing();
        let mut text = SafeText::default();
        let mut now = BTreeMap::new();
        for status in listing.sessions {
            if told.get(&status.id) != Some(&status) {
                text.push(SafeText::json_line(&status)?);
            }
            now.insert(status.id.clone(), status);
        }
        for id in told.keys().filter(|id| !now.contains_key(*id)) {
            text.push(SafeText::json_line(&serde_json::json!({ "gone": id }))?);
        }
        told = now;
        print::text(&text)?;
        let mut fds = vec![PollFd::from_borrowed_fd(tty::standard_output(), PollFlags::empty())];
        fds.extend(live.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(Problem::refused(format!("cannot wait for changes: {error}")));
            }
        }
        if !fds[0].revents().is_empty() {
            // The reader has closed standard output.
            return Ok(0);
        }
        std::thread::sleep(GATHER);
        live.take_news()?;
    }
}
