//! `berth ls --watch`: the list, kept up to date.
//!
//! Promise: it is drawn again when something changes, and once a second for the ages; between that nothing is
//! done. Whatever ends it, the terminal is as it was. Off a terminal, with --json, there is a line for each
//! session that changed, and `{"gone":ID}` for one that is no longer listed.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use berth_api::{Code, Problem, Status};
use berth_host::signals::SignalFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::stdio::stdin;

use super::{drawn, remarks};
use crate::args::Ls;
use crate::ctx::Ctx;
use crate::listing::Filter;
use crate::listing::live::Live;
use crate::listing::table::Paper;
use crate::visible::{Paint, Visible};
use crate::{print, tty, width};

/// How long news are gathered before they are looked at: they come in bunches, and a keeper that ends is told of
/// a moment before its lease is free.
const GATHER: Duration = Duration::from_millis(60);
/// How often ages are written anew.
const TICK: Duration = Duration::from_secs(1);

pub(super) fn run(ctx: &Ctx, args: &Ls, filter: Filter) -> Result<u8, Problem> {
    let usage = |what: &str, hint: &str| Err(Problem::new(Code::Usage, what).hint(hint));
    match (args.json, args.tree) {
        (true, true) => {
            return usage("--watch --json prints a session at a time, and no tree", "leave --tree out");
        }
        (true, false) => return lines(Live::begin(ctx, filter)?),
        (false, _) if !tty::is_interactive() => {
            return usage("--watch needs a terminal", "for programs there is `berth ls --watch --json`");
        }
        (false, _) => {}
    }
    let wanted = [Signal::WINCH, Signal::HUP, Signal::TERM, Signal::INT].map(Signal::as_raw);
    let cannot = |what: &str, error: &std::io::Error| {
        Problem::new(Code::Refused, format!("cannot {what}: {error}")).hint("`berth ls` lists once")
    };
    let signals = SignalFd::new(&wanted).map_err(|error| cannot("listen to signals", &error))?;
    let mut live = Live::begin(ctx, filter)?;
    let raw = tty::Raw::enter().map_err(|error| cannot("prepare the terminal", &error))?;
    // Its own screen, so that what was there comes back; no cursor.
    tty::set_active_screen(berth_screen::ActiveScreen::Alternate);
    tty::last_words(b"\x1b[?1049h\x1b[?25l");
    let left = watch(ctx, args, &mut live, &signals);
    drop(raw);
    left
}

/// Why the loop goes on.
#[derive(Default)]
struct Woken {
    has_news: bool,
    is_over: Option<u8>,
}

fn watch(ctx: &Ctx, args: &Ls, live: &mut Live<'_>, signals: &SignalFd) -> Result<u8, Problem> {
    let mut news_at: Option<Instant> = None;
    let mut tick_at = Instant::now() + TICK;
    let mut last = Visible::default();
    loop {
        let picture = picture(ctx, args, live)?;
        // A terminal far away is not sent what it shows already.
        if picture != last {
            // One synchronized update where the terminal supports it, drawn over the old picture: nothing flickers.
            let rows = picture.as_str().replace('\n', "\x1b[K\r\n");
            tty::last_words(format!("\x1b[?2026h\x1b[H{rows}\x1b[K\x1b[J\x1b[?2026l").as_bytes());
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
                // Another size, or a key that means nothing.
                break;
            }
        }
        if news_at.is_some_and(|at| at <= Instant::now()) {
            news_at = None;
            live.take_news()?;
        }
        if tick_at <= Instant::now() {
            live.tick()?;
            // From now on, not from when it was due: whoever was suspended owes nothing.
            tick_at = Instant::now() + TICK;
        }
    }
}

fn wait(live: &Live<'_>, signals: &SignalFd, for_news: bool, patience: Duration) -> Woken {
    let mut woken = Woken::default();
    let mut fds = vec![
        PollFd::from_borrowed_fd(stdin(), PollFlags::IN),
        PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
    ];
    // Known news are gathered; that there are some need not be told again.
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
            // q, Ctrl-C, Ctrl-D and Escape by itself.
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
fn picture(ctx: &Ctx, args: &Ls, live: &Live<'_>) -> Result<Visible, Problem> {
    let size = tty::size().unwrap_or_default();
    let (rows, columns) = (usize::from(size.rows).max(2), usize::from(size.cols).max(2));
    let colour = tty::wants_colour();
    let mut listing = live.listing();
    let mut lines = drawn(ctx, args, &mut listing, None, Paper { columns: Some(columns), colour })?;
    let mut foot = remarks(args, &listing);
    foot.extend(listing.damaged.iter().map(|problem| format!("error: {}", problem.what)));
    let room = rows - 1;
    if lines.len() > room {
        foot.insert(0, format!("{} more than fit", lines.len() - room));
        lines.truncate(room);
    }
    foot.push("q leaves".to_owned());
    let foot = width::cut(&width::one_line(&foot.join(" · ")), columns);
    lines.resize(room, Visible::default());
    lines.push(Visible::painted(Paint::Dim, foot, colour));
    Ok(Visible::joined(lines, "\n"))
}

/// For programs: what is there, then what changes, until nobody reads it.
fn lines(mut live: Live<'_>) -> Result<u8, Problem> {
    let mut told: BTreeMap<String, Status> = BTreeMap::new();
    loop {
        let listing = live.listing();
        let mut text = Visible::default();
        let mut now = BTreeMap::new();
        for status in listing.sessions {
            if told.get(&status.id) != Some(&status) {
                text.push(Visible::json_line(&status)?);
            }
            now.insert(status.id.clone(), status);
        }
        for id in told.keys().filter(|id| !now.contains_key(*id)) {
            text.push(Visible::json_line(&serde_json::json!({ "gone": id }))?);
        }
        told = now;
        print::text(&text)?;
        let mut fds = vec![PollFd::from_borrowed_fd(tty::standard_output(), PollFlags::empty())];
        fds.extend(live.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(Problem::new(Code::Refused, format!("cannot wait for changes: {error}")));
            }
        }
        if !fds[0].revents().is_empty() {
            // Nobody reads any more.
            return Ok(0);
        }
        std::thread::sleep(GATHER);
        live.take_news()?;
    }
}
