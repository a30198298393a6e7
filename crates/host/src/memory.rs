//! The memory of this process: small while idle, and closed to others.
//!
//! Promise: nothing is lost. [`release_unused`] frees only unused heap and clean pages of the program file, which the
//! kernel maps again when they are next used.

use std::{fs, io};

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Keeps other processes of this account from looking into this one: no core dump, no `ptrace`, and
/// `/proc/PID/environ`, `mem`, `fd`, `cwd` and `exe` are root's. Every account can still read `stat`, `cmdline` and
/// `cgroup`. An exec ends this protection, so programs that this process starts are not affected.
///
/// To be called after [`crate::spawn::set_process_name`]: `/proc/self/comm` is root's as well from then on.
pub fn forbid_inspection() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Keeps the heap in one piece. Threads that come and go would each leave one of their own.
pub fn use_single_arena() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt only sets a parameter of the allocator.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives back memory that an idle process does not need: free heap, and the pages of the program itself.
pub fn release_unused() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: malloc_trim returns free memory to the kernel and touches nothing in use.
        unsafe { libc::malloc_trim(0) };
        for (start, length) in
            clean_program_pages(&fs::read_to_string("/proc/self/smaps").unwrap_or_default())
        {
            // SAFETY: the range is a mapping of this process that was never written to (no
            // anonymous page in it, resident or swapped), so dropping it loses nothing: the next use reads the file.
            unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
        }
    }
}

/// The mappings of files that cannot be written and have never been.
///
/// A mapping that was written before it was made read-only (relocations) has anonymous pages, in memory or swapped
/// out. Dropping those would bring the unrelocated file back, so they stay.
fn clean_program_pages(smaps: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut candidate = None;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-') {
            let range = usize::from_str_radix(start, 16).ok().zip(usize::from_str_radix(end, 16).ok());
            let permissions = words.next().unwrap_or_default();
            let is_file = words.nth(3).is_some_and(|path| path.starts_with('/'));
            let read_only = permissions.starts_with("r-") && permissions.ends_with('p');
            candidate = range.filter(|_| is_file && read_only).map(|(start, end)| (start, end - start));
        } else if matches!(first, "Anonymous:" | "Swap:") && words.next() != Some("0") {
            candidate = None;
        } else if first == "VmFlags:" {
            found.extend(candidate.take());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_pages_that_were_never_written_are_given_back() {
        let smaps = "\
00400000-00500000 r-xp 00001000 fe:00 12 /usr/bin/berth
Rss:                 512 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex
00600000-00700000 r--p 00101000 fe:00 12 /usr/bin/berth
Anonymous:            64 kB
Swap:                  0 kB
VmFlags: rd
00650000-00700000 r--p 00151000 fe:00 12 /usr/bin/berth
Anonymous:             0 kB
Swap:                 20 kB
VmFlags: rd
00700000-00800000 rw-p 00201000 fe:00 12 /usr/bin/berth
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd wr
00900000-00a00000 r--p 00000000 00:00 0 [vvar]
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd
";
        assert_eq!(clean_program_pages(smaps), vec![(0x40_0000, 0x10_0000)]);
    }

    #[test]
    fn a_process_that_gave_back_memory_goes_on_as_before() {
        use_single_arena();
        let kept: Vec<u64> = (0..10_000).collect();
        release_unused();
        assert_eq!(kept.iter().sum::<u64>(), 49_995_000);
        assert_eq!(format!("{:?}", kept.last()), "Some(9999)");
    }
}
