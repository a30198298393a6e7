//! Creating the process itself.
//!
//! Promise: exactly one new process or an error, with all signals blocked in the new one, and with a
//! descriptor for it that was made in the same step.
//! Not here: the code of the new process. It must be system calls only: other threads may have held any lock when it
//! was made, and it may share its memory with us.
//! Start with [`start`].

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// `libc` declares this one too small to hold its value.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Code that the new process runs.
pub(super) trait ChildCode {
    /// Runs in the new process, and must never return into the code of its parent.
    fn run(&self) -> !;
}

/// Makes a process that runs `child`.
pub(super) fn start(child: &dyn ChildCode) -> io::Result<(u32, OwnedFd)> {
    let _blocked = BlockedSignals::new()?;
    match clone3(None, child) {
        // An old kernel, or a sandbox that filters system calls whose arguments it cannot read.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => fork(child),
        answer => answer,
    }
}

/// Makes a process that runs `child` and is born in a cgroup. Moving one there later would make it wait
/// for every processor of the host.
pub(super) fn start_in(cgroup: RawFd, child: &dyn ChildCode) -> io::Result<(u32, OwnedFd)> {
    let _blocked = BlockedSignals::new()?;
    clone3(Some(cgroup), child)
}

/// Makes a process that runs `child` and whose parent is our own parent: we are not told of its end, and it does not
/// become ours even if we adopt orphans.
pub(super) fn start_beside(child: &dyn ChildCode) -> io::Result<(u32, OwnedFd)> {
    let _blocked = BlockedSignals::new()?;
    match clone3_as(CloneParent::Ours, None, child) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => fork_beside(child),
        answer => answer,
    }
}

/// The parent that a new process gets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CloneParent {
    We,
    /// Our own parent, or the process that adopts its orphans.
    Ours,
}

fn clone3(cgroup: Option<RawFd>, child: &dyn ChildCode) -> io::Result<(u32, OwnedFd)> {
    clone3_as(CloneParent::We, cgroup, child)
}

fn clone3_as(
    parent: CloneParent,
    cgroup: Option<RawFd>,
    child: &dyn ChildCode,
) -> io::Result<(u32, OwnedFd)> {
    let mut pidfd: RawFd = -1;
    // SAFETY: all zeroes is a valid `clone_args`: every field is a number.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = libc::CLONE_PIDFD as u64;
    args.pidfd = ptr::from_mut(&mut pidfd) as u64;
    match parent {
        CloneParent::We => args.exit_signal = libc::SIGCHLD as u64,
        // With CLONE_PARENT the kernel wants no signal here: the new process signals like this one.
        CloneParent::Ours => args.flags |= libc::CLONE_PARENT as u64,
    }
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = cgroup as u64;
    }
    #[cfg(target_arch = "x86_64")]
    let answer = sharing_memory(&mut args, child);
    #[cfg(not(target_arch = "x86_64"))]
    let answer = copying_memory(&mut args, child);
    let pid = answer?;
    // SAFETY: the kernel just made this descriptor for us and no other code owns it.
    Ok((pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

/// Clones without copying our page tables, as `posix_spawn` does: the new process borrows our memory, and
/// we sleep until it runs its program or exits. In a small process this saves half of the time.
#[cfg(target_arch = "x86_64")]
fn sharing_memory(args: &mut libc::clone_args, child: &dyn ChildCode) -> io::Result<u32> {
    /// Enough for the frames of a debug build. Pages that are not touched cost nothing.
    const STACK_SIZE: usize = 64 * 1024;

    extern "C" fn enter(child: *const &dyn ChildCode) -> ! {
        // SAFETY: this is the pointer passed below, whose owner sleeps while we run.
        unsafe { &*child }.run()
    }

    // 16 bytes each, because the stack must be aligned to that.
    let mut stack = Vec::<u128>::with_capacity(STACK_SIZE / 16);
    args.flags |= (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    args.stack = stack.as_mut_ptr() as u64;
    args.stack_size = STACK_SIZE as u64;
    let entry: extern "C" fn(*const &dyn ChildCode) -> ! = enter;
    let mut answer = libc::SYS_clone3;
    // SAFETY: the new process starts behind `syscall` with our registers but on its own stack, so it
    // cannot disturb our frames, and it calls `enter`, which does not return. We come back, with only
    // `rax`, `rcx` and `r11` changed, when it no longer uses our memory (CLONE_VFORK), so `stack`, `args`
    // and `child` outlive it. It does write `errno`, on which no code may rely across this call.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r8",
            "call r9",
            "ud2",
            "2:",
            inlateout("rax") answer,
            in("rdi") ptr::from_mut(args),
            in("rsi") size_of::<libc::clone_args>(),
            in("r8") ptr::from_ref(&child),
            in("r9") entry,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    u32::try_from(answer).map_err(|_| io::Error::from_raw_os_error(-answer as i32))
}

/// Clones with a copy of our memory, like `fork`. It needs no assembler.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn copying_memory(args: &mut libc::clone_args, child: &dyn ChildCode) -> io::Result<u32> {
    // SAFETY: the new process goes on here with its own copy of our memory and stack, and never leaves `child`.
    match unsafe { libc::syscall(libc::SYS_clone3, ptr::from_mut(args), size_of::<libc::clone_args>()) } {
        0 => child.run(),
        pid => u32::try_from(pid).map_err(|_| io::Error::last_os_error()),
    }
}

fn fork(child: &dyn ChildCode) -> io::Result<(u32, OwnedFd)> {
    // SAFETY: as in `copying_memory`.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    let Some(born) = Pid::from_raw(pid) else { child.run() };
    // No code reaps the child before we return, so its pid is still its own.
    match pidfd_open(born, PidfdFlags::empty()) {
        Ok(pidfd) => Ok((pid.cast_unsigned(), pidfd)),
        Err(error) => {
            // SAFETY: `pid` is our child, not reaped yet. The status is not asked for.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, ptr::null_mut(), 0);
            }
            Err(error.into())
        }
    }
}

/// Like [`start_beside`], for a kernel that knows only the old call.
fn fork_beside(child: &dyn ChildCode) -> io::Result<(u32, OwnedFd)> {
    let none = ptr::null_mut::<libc::c_void>();
    let flags = libc::CLONE_PARENT as libc::c_ulong;
    // SAFETY: as in `copying_memory`: no new stack means a copy of ours, and nothing else is asked for.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) };
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    let Some(born) = Pid::from_raw(pid) else { child.run() };
    Ok((pid.cast_unsigned(), pidfd_open(born, PidfdFlags::empty())?))
}

/// Blocks every signal until dropped. Without it a handler of ours could run in the new process, which has our
/// handlers until it resets them.
struct BlockedSignals {
    before: u64,
}

impl BlockedSignals {
    fn new() -> io::Result<BlockedSignals> {
        let (all, mut before) = (u64::MAX, 0_u64);
        // SAFETY: two masks of 8 bytes, one to read and one to write.
        let answer =
            unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &all, &mut before, 8) };
        if answer == 0 { Ok(BlockedSignals { before }) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        let none = ptr::null_mut::<u64>();
        // SAFETY: a mask of 8 bytes to read, and the old one is not asked for. It cannot fail: the
        // kernel gave us this mask.
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &self.before, none, 8) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checked;

    struct ExitWith7;

    impl ChildCode for ExitWith7 {
        fn run(&self) -> ! {
            // SAFETY: takes no memory.
            unsafe { libc::_exit(7) }
        }
    }

    /// Exits with 0 if the alarm is blocked.
    struct AskMask;

    impl ChildCode for AskMask {
        fn run(&self) -> ! {
            let (mut now, none) = (0_u64, ptr::null::<u64>());
            // SAFETY: `now` is a mask of 8 bytes to write, and the mask does not change.
            unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, none, &mut now, 8) };
            let blocked = now >> (libc::SIGALRM - 1) & 1 == 1;
            // SAFETY: takes no memory.
            unsafe { libc::_exit(i32::from(!blocked)) }
        }
    }

    fn exit_code(pid: u32) -> i32 {
        let mut status = 0;
        // SAFETY: `status` is writable.
        checked(unsafe { libc::waitpid(pid.cast_signed(), &mut status, 0) }).unwrap();
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn each_way_to_make_a_process_runs_the_code_in_it() {
        let (pid, _pidfd) = start(&ExitWith7).unwrap();
        assert_eq!(exit_code(pid), 7);
        let (pid, _pidfd) = fork(&ExitWith7).unwrap();
        assert_eq!(exit_code(pid), 7);
        // SAFETY: all zeroes is a valid `clone_args`.
        let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
        args.exit_signal = libc::SIGCHLD as u64;
        assert_eq!(exit_code(copying_memory(&mut args, &ExitWith7).unwrap()), 7);
    }

    #[test]
    fn a_descriptor_that_is_not_a_cgroup_is_rejected() {
        assert!(start_in(-1, &ExitWith7).is_err());
    }

    #[test]
    fn signals_are_blocked_in_the_child_and_as_before_in_us() {
        let mask = || {
            let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            text.lines().find(|line| line.starts_with("SigBlk")).unwrap().to_owned()
        };
        let before = mask();
        let (pid, _pidfd) = start(&AskMask).unwrap();
        assert_eq!(exit_code(pid), 0);
        assert_eq!(mask(), before);
    }
}
