//! Read limit: the bytes of files that may be read for one request, and cancellation of the reads.
//!
//! Promise: inside of [`with_budget`], files are read only as far as the limit allows, and at most one more piece is read after
//! the caller has left; a file that is larger than the rest of the limit is refused before it is read. Elsewhere
//! (the command line, a keeper) there is no limit.
//! The limit belongs to the thread: everything here reads a file in the thread that was asked to.
//! Start with [`with_budget`].

use std::cell::RefCell;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Remaining read limit of one request.
#[derive(Clone, Debug)]
struct ReadBudget {
    most_bytes: u64,
    left_bytes: u64,
    /// True once no caller waits for the answer.
    is_abandoned: Arc<AtomicBool>,
}

thread_local! {
    static CURRENT: RefCell<Option<ReadBudget>> = const { RefCell::new(None) };
}

/// Runs work that may read at most `most_bytes` of files, and whose reads fail once it is abandoned.
pub fn with_budget<T>(most_bytes: u64, is_abandoned: Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    /// Restores the previous allowance, also after a panic: the thread is used again.
    struct PreviousBudget(Option<ReadBudget>);
    impl Drop for PreviousBudget {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let allowance = ReadBudget { most_bytes, left_bytes: most_bytes, is_abandoned };
    let _before = PreviousBudget(CURRENT.replace(Some(allowance)));
    work()
}

/// Fails once no caller waits for the answer.
pub fn check_not_abandoned() -> io::Result<()> {
    CURRENT.with_borrow(|current| match current {
        Some(allowance) if allowance.is_abandoned.load(Ordering::Relaxed) => {
            Err(io::Error::other("the client disconnected"))
        }
        Some(_) | None => Ok(()),
    })
}

/// Fails if this many bytes exceed the rest of the limit.
fn check_budget(bytes: u64) -> io::Result<()> {
    CURRENT.with_borrow(|current| match current {
        Some(allowance) if bytes > allowance.left_bytes => {
            let most = allowance.most_bytes >> 20;
            Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("for one request {most} MiB are read at most"),
            ))
        }
        Some(_) | None => Ok(()),
    })
}

fn charge(bytes: usize) {
    CURRENT.with_borrow_mut(|current| {
        if let Some(allowance) = current {
            allowance.left_bytes = allowance.left_bytes.saturating_sub(bytes as u64);
        }
    });
}

/// A file that is read within the allowance.
#[derive(Debug)]
pub struct BudgetedReader<R> {
    source: R,
    is_charged: bool,
}

impl<R> BudgetedReader<R> {
    /// A file of this size that is read from its beginning to its end. Fails if that is too much.
    pub fn whole(source: R, size: u64) -> io::Result<Self> {
        check_budget(size)?;
        Ok(Self { source, is_charged: true })
    }

    /// A file that is read only in part.
    pub fn partial(source: R) -> Self {
        Self { source, is_charged: true }
    }

    /// A file that was read as a whole before: it is not counted again.
    pub fn again(source: R) -> Self {
        Self { source, is_charged: false }
    }
}

impl<R: Read> Read for BudgetedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        check_not_abandoned()?;
        if self.is_charged {
            // A file may grow, or be endless.
            check_budget(1)?;
        }
        let count = self.source.read(buffer)?;
        if self.is_charged {
            charge(count);
        }
        Ok(count)
    }
}

impl<R: Seek> Seek for BudgetedReader<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.source.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: BudgetedReader<impl Read>) -> io::Result<usize> {
        let (mut source, mut buffer, mut total) = (source, [0; 64], 0);
        loop {
            match source.read(&mut buffer)? {
                0 => return Ok(total),
                count => total += count,
            }
        }
    }

    #[test]
    fn a_file_is_read_up_to_the_limit_of_its_request_and_no_further() {
        let bytes = || &[0_u8; 256][..];
        let kind = |error: io::Error| error.kind();
        with_budget(300, Arc::default(), || {
            assert_eq!(
                BudgetedReader::whole(bytes(), 301).map_err(kind).err(),
                Some(io::ErrorKind::FileTooLarge)
            );
            assert_eq!(read(BudgetedReader::whole(bytes(), 256).expect("it fits")).expect("it fits"), 256);
            assert_eq!(read(BudgetedReader::again(bytes())).expect("it was counted"), 256);
            assert!(BudgetedReader::whole(bytes(), 45).is_err(), "44 bytes are left");
            assert_eq!(
                read(BudgetedReader::partial(io::repeat(0))).map_err(kind),
                Err(io::ErrorKind::FileTooLarge)
            );
        });
        assert_eq!(read(BudgetedReader::whole(bytes(), 1 << 40).expect("no limit")).expect("no limit"), 256);
    }

    #[test]
    fn reading_stops_once_the_caller_has_left() {
        let is_abandoned = Arc::new(AtomicBool::new(false));
        with_budget(u64::MAX, is_abandoned.clone(), || {
            let mut source = BudgetedReader::partial(io::repeat(0));
            assert_eq!(source.read(&mut [0; 8]).expect("the caller still waits"), 8);
            is_abandoned.store(true, Ordering::Relaxed);
            assert!(source.read(&mut [0; 8]).is_err() && check_not_abandoned().is_err());
        });
        assert!(check_not_abandoned().is_ok());
    }
}
