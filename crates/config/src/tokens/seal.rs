//! The key of a state directory, and what it proves: that a record was made here.
//!
//! Promise: a record that was copied from another state directory, or edited, opens nothing. The key is made once, appears
//! whole, and is readable by its owner alone. Without it every token, login and link is void, and new ones can be made.
//! Not here: what keeps a process of the same account from reading the key. Nothing does (docs/grants.md).
//! Start with [`RecordSeal::open`].

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::record::TokenRecord;
use super::secret::hex;

/// The key's file. It is in the state directory and not among the records, so that a copy of those does not include it.
const FILE: &str = "token.key";
const KEY_BYTES: usize = 32;

/// Seals and checks records.
#[derive(Clone, Debug)]
pub(crate) struct RecordSeal {
    root: PathBuf,
}

impl RecordSeal {
    /// The seal of this state directory. Makes its key if there is none.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let seal = Self { root: root.to_owned() };
        match seal.key() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => seal.make_key()?,
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        Ok(seal)
    }

    /// The state directory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Adds the code that proves that this record was made here.
    pub(crate) fn close(&self, record: &mut TokenRecord) -> io::Result<()> {
        record.mac = hex(&self.mac(record)?.finalize().into_bytes());
        Ok(())
    }

    /// True if this state directory made the record, and it was not edited. Reads the key each time, so that a lost key
    /// counts at once.
    pub(crate) fn is_ours(&self, record: &TokenRecord) -> bool {
        let Ok(mac) = self.mac(record) else { return false };
        unhex(&record.mac).is_some_and(|shown| mac.verify_slice(&shown).is_ok())
    }

    fn mac(&self, record: &TokenRecord) -> io::Result<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key()?).map_err(io::Error::other)?;
        // The code covers every field, including fields that are added later.
        let bare = TokenRecord { mac: String::new(), ..record.clone() };
        mac.update(&serde_json::to_vec(&bare)?);
        Ok(mac)
    }

    fn key(&self) -> io::Result<[u8; KEY_BYTES]> {
        let bytes = fs::read(self.root.join(FILE))?;
        let what = || {
            let path = self.root.join(FILE);
            format!(
                "{} is damaged; remove it for a new one, which makes all tokens, logins and links void",
                path.display()
            )
        };
        bytes.try_into().map_err(|_| io::Error::other(what()))
    }

    /// Makes the key, unless another process just did: a hard link fails if the name is taken.
    fn make_key(&self) -> io::Result<()> {
        let mut key = [0; KEY_BYTES];
        berth_host::random_bytes(&mut key)?;
        let temporary = self.root.join(format!(".{FILE}.{}.tmp", hex(&key[..4])));
        let write = || {
            let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
            io::Write::write_all(&mut file, &key)?;
            file.sync_all()?;
            fs::hard_link(&temporary, self.root.join(FILE))
        };
        let made = write();
        let _ = fs::remove_file(&temporary);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
            Ok(()) => fs::File::open(&self.root)?.sync_all(),
        }
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}
