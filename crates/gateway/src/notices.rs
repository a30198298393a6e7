//! What the kernel tells about directories and processes that somebody remembers something of.
//!
//! Promise: a change to a file in a watched directory, and the end of a process, are here before whoever caused them
//! goes on (before `write` or `rename` returns, before the dead can be waited for). So who finds nothing here, which
//! costs one system call however much is watched, knows that nothing has changed up to that moment. What the kernel
//! could not keep is told as [`Notice::Lost`], never left out.
//! Not here: what follows from it. Who takes notices and who believes must agree on a lock: see [`Notices::take`].

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use berth_host::identity::Pidfd;
use rustix::event::{Timespec, epoll};
use rustix::fs::inotify::{self, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// How many ends and changes are heard of at once. More are as good as lost: everything is forgotten.
const MOST_READY: usize = 64;
/// How many are taken at once. More than that is as good as everything.
const MOST_TAKEN: usize = 1024;
/// Room for what the kernel tells in one go: some dozens of changes.
const BUFFER_BYTES: usize = 4096;
/// The number of the watched directories in the set of what is waited for; processes come after it.
const DIRECTORIES: u64 = 0;

/// Everything that can change what a directory's files say. Reading is none of it.
pub(crate) const ANY_CHANGE: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(MOVED_AWAY);
/// The directory is no longer where it was, or may no longer be looked into.
pub(crate) const MOVED_AWAY: WatchFlags =
    WatchFlags::DELETE_SELF.union(WatchFlags::MOVE_SELF).union(WatchFlags::ATTRIB);

/// What is told when nothing more can be expected of a watch.
const OVER: ReadFlags =
    ReadFlags::IGNORED.union(ReadFlags::UNMOUNT).union(ReadFlags::DELETE_SELF).union(ReadFlags::MOVE_SELF);

/// Something happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    /// In the directory of this watch; and whether that one is not watched any more, or not where it was.
    Changed { watch: i32, is_over: bool },
    /// The process that was given this number ended.
    Ended(u64),
    /// More than could be kept: anything may have.
    Lost,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Notices {
    /// Ready as soon as one of the others is.
    all: OwnedFd,
    directories: OwnedFd,
}

impl Notices {
    pub(crate) fn open() -> io::Result<Self> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let directories = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        epoll::add(&all, &directories, epoll::EventData::new_u64(DIRECTORIES), epoll::EventFlags::IN)?;
        Ok(Self { all, directories })
    }

    /// Tells of changes in a directory from now on; which ones, `flags` says. The same directory has the same watch.
    pub(crate) fn watch(&self, dir: &Path, flags: WatchFlags) -> io::Result<i32> {
        Ok(inotify::add_watch(&self.directories, dir, flags | WatchFlags::ONLYDIR)?)
    }

    /// Tells of it no more. Fine if the watch has ended already.
    pub(crate) fn unwatch(&self, watch: i32) {
        let _ = inotify::remove_watch(&self.directories, watch);
    }

    /// Tells of the end of a process, by a number that is not zero, at once if it has ended.
    pub(crate) fn attend(&self, process: &Pidfd, number: u64) -> io::Result<()> {
        debug_assert_ne!(number, DIRECTORIES, "this one is taken");
        Ok(epoll::add(&self.all, process, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?)
    }

    /// Tells of it no more.
    pub(crate) fn leave(&self, process: &Pidfd) {
        let _ = epoll::delete(&self.all, process);
    }

    /// Whether there is something to take. That it cannot be told counts as something.
    pub(crate) fn are_there(&self) -> bool {
        let mut events = [MaybeUninit::uninit(); 1];
        self.ready(&mut events).is_none_or(|ready| !ready.is_empty())
    }

    /// Takes what there is. Whoever believes something because nothing is there must look at what they believe after
    /// that, under a lock that the taker holds from before it takes until everybody is told: or they find nothing
    /// here because another one has just taken it.
    pub(crate) fn take(&self) -> Vec<Notice> {
        let mut taken = Vec::new();
        let mut events = [MaybeUninit::uninit(); MOST_READY];
        let Some(ready) = self.ready(&mut events) else { return vec![Notice::Lost] };
        let there_may_be_more = ready.len() == MOST_READY;
        for event in ready {
            match event.data.u64() {
                DIRECTORIES => self.read(&mut taken),
                number => taken.push(Notice::Ended(number)),
            }
        }
        if there_may_be_more {
            taken.push(Notice::Lost);
        }
        taken
    }

    fn read(&self, taken: &mut Vec<Notice>) {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = inotify::Reader::new(&self.directories, &mut buffer);
        loop {
            let notice = match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => Notice::Lost,
                Ok(event) => Notice::Changed { watch: event.wd(), is_over: event.events().intersects(OVER) },
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                // The rest stays there and is found the next time.
                Err(_) => return taken.push(Notice::Lost),
            };
            taken.push(notice);
            if taken.len() >= MOST_TAKEN {
                return taken.push(Notice::Lost);
            }
        }
    }

    fn ready<'a>(&self, events: &'a mut [MaybeUninit<epoll::Event>]) -> Option<&'a mut [epoll::Event]> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&self.all, events, Some(&at_once)).ok().map(|(ready, _)| ready)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn private_dir(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("berth-notices-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        dir
    }

    #[test]
    fn a_change_is_there_when_whoever_made_it_goes_on_and_reading_is_none() {
        let dir = private_dir("change");
        let file = dir.join("file");
        std::fs::write(&file, "one").expect("a file");
        let notices = Notices::open().expect("watches");
        let watch = notices.watch(&dir, ANY_CHANGE | WatchFlags::ONESHOT).expect("a watch");
        std::fs::read(&file).expect("it is there");
        assert!(!notices.are_there(), "nothing was changed");
        std::fs::write(&file, "two").expect("a file");
        assert!(notices.are_there());
        let taken = notices.take();
        assert_eq!(taken.first(), Some(&Notice::Changed { watch, is_over: false }));
        assert_eq!(taken.last(), Some(&Notice::Changed { watch, is_over: true }), "it was for once");
        std::fs::write(&file, "three").expect("a file");
        assert!(!notices.are_there(), "nobody watches any more");
        std::fs::remove_dir_all(&dir).expect("our own");
    }

    #[test]
    fn a_directory_that_is_moved_away_has_changed() {
        let dir = private_dir("moved");
        let away = dir.with_extension("away");
        let notices = Notices::open().expect("watches");
        let watch = notices.watch(&dir, MOVED_AWAY).expect("a watch");
        std::fs::write(dir.join("file"), "one").expect("a file");
        assert!(!notices.are_there(), "what is in it is not asked about");
        std::fs::rename(&dir, &away).expect("our own");
        assert_eq!(notices.take(), [Notice::Changed { watch, is_over: true }]);
        std::fs::remove_dir_all(&away).expect("our own");
    }

    #[test]
    fn more_ends_than_are_heard_of_at_once_count_as_everything_lost() {
        let notices = Notices::open().expect("watches");
        let mut child = Command::new("true").spawn().expect("a process");
        let dead: Vec<Pidfd> = (0..MOST_READY).map(|_| Pidfd::open(child.id()).expect("ours")).collect();
        child.wait().expect("our own child");
        for (number, process) in (1..).zip(&dead).take(MOST_READY - 1) {
            notices.attend(process, number).expect("room");
        }
        assert!(!notices.take().contains(&Notice::Lost));
        notices.attend(&dead[MOST_READY - 1], 1000).expect("room");
        assert!(notices.take().contains(&Notice::Lost));
    }

    #[test]
    fn the_end_of_a_process_is_told_until_somebody_has_enough_of_it() {
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("a process");
        let process = Pidfd::open(child.id()).expect("it runs");
        let notices = Notices::open().expect("watches");
        notices.attend(&process, 7).expect("room");
        assert!(!notices.are_there());
        child.kill().and_then(|()| child.wait()).expect("our own child");
        assert_eq!(notices.take(), [Notice::Ended(7)]);
        assert!(notices.are_there(), "it is still dead");
        notices.leave(&process);
        assert!(!notices.are_there());
    }

    #[test]
    fn more_than_is_taken_at_once_is_as_good_as_everything() {
        let dir = private_dir("many");
        let notices = Notices::open().expect("watches");
        notices.watch(&dir, ANY_CHANGE).expect("a watch");
        for at in 0..MOST_TAKEN {
            std::fs::write(dir.join(format!("file-{at}")), "x").expect("a file");
        }
        assert_eq!(notices.take().last(), Some(&Notice::Lost));
        while notices.are_there() {
            notices.take();
        }
        std::fs::remove_dir_all(&dir).expect("our own");
    }
}
