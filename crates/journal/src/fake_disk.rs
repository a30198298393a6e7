//! A disk in memory that behaves as badly as real ones may.
//!
//! Promise: what a successful sync covered stays. All else is open: at a [`crash`](FakeDisk::crash), unsynced bytes
//! are kept, lost, zeroed or scrambled, sector by sector, and unsynced names are kept or lost one by one. A sync
//! that fails does the same at once, and marks all as clean, so that trying again succeeds and proves nothing. The
//! same seed and the same calls give the same disk.
//! Not here: damage to synced bytes (use [`FakeDisk::put`]), and readers that see a file in mid-write.
//! Start with [`FakeDisk::new`]; a clone is another handle to the same disk.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::JournalDisk;

/// Small, so that even a short frame lies in several.
const SECTOR_BYTES: usize = 32;

/// A small generator of numbers that only look random (splitmix64).
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Makes a generator. Equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    /// True in half of the calls.
    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// Numbers of operations on a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Appends.
    pub writes: u64,
    /// Syncs of a file.
    pub file_syncs: u64,
    /// Syncs of the directory.
    pub dir_syncs: u64,
}

/// A disk in memory; the module explains its failures.
#[derive(Clone, Debug)]
pub struct FakeDisk(Arc<Mutex<FakeDiskState>>);

/// A file of a [`FakeDisk`], until the next crash.
#[derive(Debug)]
pub struct FakeFile {
    inode: usize,
    boot: u64,
}

#[derive(Debug)]
struct FakeDiskState {
    rng: SplitMix64,
    boot: u64,
    inodes: Vec<FakeInode>,
    /// The directory as processes see it, the directory as it would be after a crash, and the changes in between.
    names: BTreeMap<String, usize>,
    safe_names: BTreeMap<String, usize>,
    unsynced: Vec<UnsyncedRename>,
    faults: DiskFaults,
    counts: DiskCounts,
    read_bytes: u64,
}

#[derive(Debug, Default)]
struct FakeInode {
    /// Content as processes see it.
    seen: Vec<u8>,
    /// Content on the platter, up to `clean`.
    safe: Vec<u8>,
    /// Offset up to which the kernel believes that both are equal.
    clean: usize,
}

/// A change to the directory: this inode left one name, got another, or both. It happens as a whole.
#[derive(Clone, Debug)]
struct UnsyncedRename {
    inode: usize,
    from: Option<String>,
    to: Option<String>,
}

#[derive(Debug, Default)]
struct DiskFaults {
    sync_fails_in: Option<u64>,
    syncs_fail_per_mille: u64,
    free_bytes: Option<usize>,
    power_ends_in: Option<u64>,
}

impl FakeDisk {
    /// An empty directory.
    pub fn new(seed: u64) -> Self {
        FakeDisk(Arc::new(Mutex::new(FakeDiskState {
            rng: SplitMix64::new(seed),
            boot: 0,
            inodes: Vec::new(),
            names: BTreeMap::new(),
            safe_names: BTreeMap::new(),
            unsynced: Vec::new(),
            faults: DiskFaults::default(),
            counts: DiskCounts::default(),
            read_bytes: 0,
        })))
    }

    /// Turns the power off and on. Open files are dead, and faults are over.
    pub fn crash(&self) {
        let mut state = self.state();
        state.lose_names();
        state.names = state.safe_names.clone();
        let FakeDiskState { rng, inodes, .. } = &mut *state;
        for inode in inodes {
            inode.lose(rng);
            inode.seen.clone_from(&inode.safe);
            inode.clean = inode.seen.len();
        }
        state.faults = DiskFaults::default();
        state.boot += 1;
    }

    /// The `n`-th sync from now fails, be it of a file or of the directory; 1 is the next.
    pub fn fail_sync(&self, n: u64) {
        self.state().faults.sync_fails_in = Some(n);
    }

    /// Lets so many of a thousand syncs fail from now on.
    pub fn fail_syncs(&self, per_mille: u64) {
        self.state().faults.syncs_fail_per_mille = per_mille;
    }

    /// Limits the free space to so many bytes. A write that does not fit is a short one.
    pub fn leave_free(&self, bytes: usize) {
        self.state().faults.free_bytes = Some(bytes);
    }

    /// After `n` more changes and syncs all calls fail, until [`crash`](FakeDisk::crash).
    pub fn cut_power_after(&self, n: u64) {
        self.state().faults.power_ends_in = Some(n);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.state().faults = DiskFaults::default();
    }

    /// Numbers of operations so far.
    pub fn counts(&self) -> DiskCounts {
        self.state().counts
    }

    /// Bytes read so far.
    pub fn read_bytes(&self) -> u64 {
        self.state().read_bytes
    }

    /// All files as processes see them.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        state.names.iter().map(|(name, &inode)| (name.clone(), state.inodes[inode].seen.clone())).collect()
    }

    /// Puts a file on the disk, with safe content and name, in place of one with that name.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        let inode = state.inodes.len();
        state.inodes.push(FakeInode { seen: bytes.to_vec(), safe: bytes.to_vec(), clean: bytes.len() });
        state.names.insert(name.to_owned(), inode);
        state.safe_names.insert(name.to_owned(), inode);
    }

    fn state(&self) -> MutexGuard<'_, FakeDiskState> {
        self.0.lock().expect("no code panics while it has the disk")
    }
}

impl JournalDisk for FakeDisk {
    type File = FakeFile;

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        state.check_power()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn read_at(&self, name: &str, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let mut state = self.state();
        state.check_power()?;
        let seen = &state.inodes[state.find(name)?].seen;
        let rest = seen.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
        let bytes = rest[..rest.len().min(most)].to_vec();
        state.read_bytes += bytes.len() as u64;
        Ok(bytes)
    }

    fn create_new(&self, name: &str) -> io::Result<FakeFile> {
        let mut state = self.state();
        state.use_power()?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = state.inodes.len();
        state.inodes.push(FakeInode::default());
        state.change_names(inode, None, Some(name));
        Ok(FakeFile { inode, boot: state.boot })
    }

    fn append(&self, file: &mut FakeFile, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.counts.writes += 1;
        state.use_power()?;
        state.check_boot(file)?;
        let fits = state.faults.free_bytes.unwrap_or(usize::MAX).min(bytes.len());
        state.faults.free_bytes = state.faults.free_bytes.map(|free| free - fits);
        state.inodes[file.inode].seen.extend_from_slice(&bytes[..fits]);
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync_file(&self, file: &mut FakeFile) -> io::Result<()> {
        let mut state = self.state();
        state.counts.file_syncs += 1;
        state.use_power()?;
        state.check_boot(file)?;
        let fails = state.sync_fails();
        let FakeDiskState { rng, inodes, .. } = &mut *state;
        let inode = &mut inodes[file.inode];
        if !fails {
            inode.keep();
            return Ok(());
        }
        inode.lose(rng);
        inode.clean = inode.seen.len();
        // Some file systems go on showing data that they failed to write, others show the data on the platter.
        if rng.coin() {
            inode.seen.clone_from(&inode.safe);
            inode.clean = inode.seen.len();
        }
        Err(io::Error::other("injected sync failure"))
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        state.counts.dir_syncs += 1;
        state.use_power()?;
        if state.sync_fails() {
            state.lose_names();
            return Err(io::Error::other("injected sync failure"));
        }
        for renaming in std::mem::take(&mut state.unsynced) {
            renaming.apply(&mut state.safe_names);
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.use_power()?;
        let inode = state.find(from)?;
        state.change_names(inode, Some(from), Some(to));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.use_power()?;
        let inode = state.find(name)?;
        state.change_names(inode, Some(name), None);
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("/fake").join(name)
    }
}

impl FakeDiskState {
    fn find(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn change_names(&mut self, inode: usize, from: Option<&str>, to: Option<&str>) {
        let renaming = UnsyncedRename { inode, from: from.map(str::to_owned), to: to.map(str::to_owned) };
        renaming.apply(&mut self.names);
        self.unsynced.push(renaming);
    }

    /// Decides for each unsynced change of a name whether it has reached the disk.
    fn lose_names(&mut self) {
        for renaming in std::mem::take(&mut self.unsynced) {
            if self.rng.coin() {
                renaming.apply(&mut self.safe_names);
            }
        }
    }

    fn sync_fails(&mut self) -> bool {
        let due = self.faults.sync_fails_in == Some(1);
        self.faults.sync_fails_in = self.faults.sync_fails_in.filter(|_| !due).map(|n| n - 1);
        due || self.rng.below(1000) < self.faults.syncs_fail_per_mille
    }

    fn use_power(&mut self) -> io::Result<()> {
        self.check_power()?;
        self.faults.power_ends_in = self.faults.power_ends_in.map(|n| n - 1);
        Ok(())
    }

    fn check_power(&self) -> io::Result<()> {
        if self.faults.power_ends_in == Some(0) { Err(io::Error::other("the power is gone")) } else { Ok(()) }
    }

    fn check_boot(&self, file: &FakeFile) -> io::Result<()> {
        if file.boot == self.boot {
            Ok(())
        } else {
            Err(io::Error::other("this file was open before the crash"))
        }
    }
}

impl UnsyncedRename {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        if let Some(from) = self.from.as_ref().filter(|from| names.get(*from) == Some(&self.inode)) {
            names.remove(from);
        }
        if let Some(to) = &self.to {
            names.insert(to.clone(), self.inode);
        }
    }
}

impl FakeInode {
    /// Moves the unsynced bytes to the platter.
    fn keep(&mut self) {
        // Bytes that got lost in a failed sync leave a hole, and no error.
        self.safe.resize(self.clean, 0);
        self.safe.extend_from_slice(&self.seen[self.clean..]);
        self.clean = self.seen.len();
    }

    /// Decides for the unsynced bytes whether they reach the platter, get lost, or get scrambled.
    fn lose(&mut self, rng: &mut SplitMix64) {
        let mut bytes = self.seen[self.clean..].to_vec();
        if bytes.is_empty() {
            return;
        }
        match rng.below(4) {
            0 => {}
            1 => bytes.clear(),
            _ => {
                if rng.coin() {
                    bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
                }
                for sector in bytes.chunks_mut(SECTOR_BYTES) {
                    match rng.below(4) {
                        0 => sector.fill(0),
                        1 => sector.fill_with(|| rng.draw() as u8),
                        _ => {}
                    }
                }
            }
        }
        self.safe.resize(self.clean, 0);
        self.safe.extend_from_slice(&bytes);
    }
}
