//! Tokens: rights of HTTP clients.
//!
//! Promise: a secret is returned once and stored nowhere, only its SHA-256 is; a record appears whole and never
//! changes; a record of another state directory opens nothing; a revoked token is gone from disk when the caller gets
//! the answer, with everything that was made with it; a token never has more rights than its maker; of two clients that
//! use a link only one logs in.
//! Not here: the rights of a request (see the gateway).
//! Start with [`TokenStore::mint`] and [`TokenStore::check`]. Reasons for the design: docs/design/auth.md.

mod record;
mod seal;
mod secret;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use berth_api::{AccessScope, NewToken, Problem, Token, TokenKind};
use berth_core::{SafeName, SessionId};
use berth_host::lock::LockFile;
use berth_host::{clock, dir, disk};
use berth_store::StateDir;
use berth_store::audit::{self, AuditEvent};

use record::TokenRecord;
pub use record::VerifiedToken;
use seal::RecordSeal;
pub use secret::TokenSecret;

/// Limit for tokens, logins and links together.
const MOST_TOKENS: usize = 1000;
/// Part of that limit for the owner of the state directory alone: no holder of a token can lock the owner out.
const OWNERS_RESERVE: usize = 100;
/// Limit for browsers that are logged in with one token; the oldest login makes room for a new one.
pub const MOST_BROWSERS: usize = 20;
/// Limit for the size of a record.
const MAX_RECORD_BYTES: u64 = 64 << 10;
/// Limit for the sessions that a token may name.
const MOST_SESSIONS: usize = 256;
/// Time to wait for another process that makes or revokes a token.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// Precision of the time at which a token was last used.
const USE_GRAIN: Duration = Duration::from_secs(60);
/// Default life of a token.
pub const TOKEN_LIFE: Duration = Duration::from_secs(90 * 24 * 3600);
/// Default life of a link.
pub const LINK_LIFE: Duration = Duration::from_secs(10 * 60);
/// Limit for the life of a link.
pub const LONGEST_LINK_LIFE: Duration = Duration::from_secs(24 * 3600);
/// Life of a browser's login.
pub const LOGIN_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Limit for the life of anything that expires: a longer life can as well be endless.
const LONGEST_LIFE: Duration = Duration::from_secs(100 * 366 * 24 * 3600);
/// Time after its end for which a link is still known as used or expired.
const LINK_MEMORY: Duration = Duration::from_secs(24 * 3600);

const RECORD: &str = "json";
const CLAIMED: &str = "claimed";
const USED: &str = "used";

/// The tokens of a state directory.
#[derive(Clone, Debug)]
pub struct TokenStore {
    dir: PathBuf,
    seal: RecordSeal,
}

/// Options of a new token.
#[derive(Clone, Debug)]
pub struct TokenParams {
    /// Name of the token; `None` lets berth choose one.
    pub name: Option<String>,
    /// Scope of the token.
    pub scope: AccessScope,
    /// Only sessions that the token may use; `None` for all.
    pub sessions: Option<BTreeSet<SessionId>>,
    /// Life of the token; `None` for ever.
    pub life: Option<Duration>,
}

/// The party that makes a token.
#[derive(Clone, Copy, Debug)]
pub struct TokenMaker<'a> {
    /// Place of the maker, for people.
    pub place: &'a str,
    /// The maker's own rights; `None` for the owner of the state directory, who may do everything.
    pub pass: Option<&'a VerifiedToken>,
}

impl TokenStore {
    /// Opens the tokens of this state directory.
    pub fn open(home: &StateDir) -> Result<Self, Problem> {
        let dir = home.root().join("tokens");
        let cannot = |error: String| Problem::refused(format!("cannot keep tokens: {error}"));
        dir::private_dir(&dir).map_err(|error| cannot(error.to_string()))?;
        let seal = RecordSeal::open(home.root()).map_err(|error| cannot(error.to_string()))?;
        Ok(Self { dir, seal })
    }

    /// Makes a token. The answer is the only place that has the secret.
    pub fn mint(
        &self,
        kind: TokenKind,
        params: &TokenParams,
        maker: TokenMaker<'_>,
    ) -> Result<NewToken, Problem> {
        let _lock = self.lock()?;
        self.mint_locked(kind, params, maker)
    }

    /// Logs a browser in. The login is named after `browser`, its description for people, with a number if that name is
    /// in use.
    pub fn log_in(
        &self,
        params: TokenParams,
        maker: TokenMaker<'_>,
        browser: &str,
    ) -> Result<NewToken, Problem> {
        let _lock = self.lock()?;
        self.log_in_locked(params, maker, browser)
    }

    fn log_in_locked(
        &self,
        params: TokenParams,
        maker: TokenMaker<'_>,
        browser: &str,
    ) -> Result<NewToken, Problem> {
        let name = Some(free_name(browser, &self.records()?));
        self.mint_locked(TokenKind::Login, &TokenParams { name, ..params }, maker)
    }

    fn mint_locked(
        &self,
        kind: TokenKind,
        params: &TokenParams,
        maker: TokenMaker<'_>,
    ) -> Result<NewToken, Problem> {
        let now = clock::wall_ms();
        self.forget(now)?;
        let mut known = self.records()?;
        if let Some(pass) = maker.pass
            && kind == TokenKind::Login
        {
            self.make_room(&mut known, &pass.id, maker.place)?;
        }
        let most = if maker.pass.is_some() { MOST_TOKENS - OWNERS_RESERVE } else { MOST_TOKENS };
        if known.len() >= most {
            return Err(Problem::full(format!("there are {most} tokens already"))
                .hint("`berth token ls` lists them; revoke what is not needed with `berth token revoke`"));
        }
        if params.sessions.as_ref().is_some_and(|sessions| sessions.len() > MOST_SESSIONS) {
            let what = format!("a token names at most {MOST_SESSIONS} sessions");
            return Err(Problem::usage(what).hint("leave the list out for a token for all sessions"));
        }
        if params.life.is_some_and(|life| life > LONGEST_LIFE) {
            return Err(Problem::usage("a token lives at most a hundred years")
                .hint("`--expires never` makes one that does not end"));
        }
        let mut expires_at_ms = params.life.map(|life| now.saturating_add(milliseconds(life)));
        if let Some(pass) = maker.pass {
            // A maker whose token was just revoked makes no more tokens.
            if !self.holds(pass) {
                return Err(Problem::not_allowed("your own token was revoked, or has expired"));
            }
            check_not_wider(pass, params)?;
            // A token expires with its maker's at the latest: otherwise each could make its own successor, and never
            // end.
            expires_at_ms = [expires_at_ms, pass.expires_at_ms].into_iter().flatten().min();
        }
        let cannot = |error: io::Error| Problem::refused(format!("cannot make a token: {error}"));
        let secret = TokenSecret::mint(kind).map_err(cannot)?;
        let hash = secret.hash();
        let id = hash.id();
        let name = match &params.name {
            Some(name) => new_name(name, &known)?,
            None => format!("{}-{}", kind.word(), &id[..6]),
        };
        let mut record = TokenRecord {
            kind,
            name,
            sha256: hash.hex(),
            scope: params.scope,
            sessions: params.sessions.as_ref().map(|ids| ids.iter().map(ToString::to_string).collect()),
            created_at_ms: now,
            created_by: maker.place.to_owned(),
            parent: maker.pass.map(|pass| pass.id.clone()),
            expires_at_ms,
            mac: String::new(),
        };
        self.seal.close(&mut record).map_err(cannot)?;
        let json = serde_json::to_vec_pretty(&record)
            .map_err(|error| Problem::bug(format!("cannot write the record of a token: {error}")))?;
        if self.path(&id, RECORD).exists() {
            return Err(Problem::refused("two secrets have the same id").hint("try again"));
        }
        disk::write_atomically(&self.dir, &format!("{id}.{RECORD}"), &json, true).map_err(cannot)?;
        let token = record.view(&id, now, None, false);
        audit::append_audit_event(self.root(), maker.place, AuditEvent::made(&token));
        Ok(NewToken { secret: secret.text().to_owned(), token })
    }

    /// Logs out the browsers whose login with a token is the oldest, and revokes what was made with them, so that one
    /// more has room.
    fn make_room(
        &self,
        known: &mut Vec<(String, TokenRecord)>,
        parent: &str,
        by: &str,
    ) -> Result<(), Problem> {
        let is_theirs =
            |it: &TokenRecord| it.kind == TokenKind::Login && it.parent.as_deref() == Some(parent);
        let mut theirs: Vec<(u64, String)> = known
            .iter()
            .filter(|(_, record)| is_theirs(record))
            .map(|(id, record)| (record.created_at_ms, id.clone()))
            .collect();
        theirs.sort();
        let over = (theirs.len() + 1).saturating_sub(MOST_BROWSERS);
        for (_, id) in &theirs[..over] {
            let gone = descendants(known, id);
            self.note_revoked(by, &self.remove(known, &gone)?);
            known.retain(|(id, _)| !gone.contains(id));
        }
        Ok(())
    }

    /// All tokens that the caller may know of, the oldest first. `pass` has the caller's own rights.
    pub fn list(&self, pass: Option<&VerifiedToken>) -> Result<Vec<Token>, Problem> {
        let now = clock::wall_ms();
        let mut records = self.records()?;
        records.sort_by_key(|(_, record)| record.created_at_ms);
        let seen = records.iter().filter(|(_, record)| is_visible_to(pass, record));
        Ok(seen.map(|(id, record)| self.view(id, record, now)).collect())
    }

    /// Revokes the token of this name or id, and everything that was made with it. Returns the revoked ones.
    pub fn revoke(&self, handle: &str, pass: Option<&VerifiedToken>) -> Result<Vec<Token>, Problem> {
        let _lock = self.lock()?;
        let records = self.records()?;
        let is_meant = |(id, record): &&(String, TokenRecord)| id == handle || record.name == handle;
        let found = records.iter().filter(|(_, record)| is_visible_to(pass, record)).find(is_meant);
        let Some((id, _)) = found else {
            return Err(Problem::not_found(format!("there is no token `{}`", handle.escape_debug()))
                .hint("`berth token ls` lists all tokens"));
        };
        self.remove(&records, &descendants(&records, id))
    }

    /// Logs which client revoked which tokens. Called after [`TokenStore::revoke`], which does not know the place of its
    /// caller.
    pub fn note_revoked(&self, by: &str, gone: &[Token]) {
        gone.iter().for_each(|token| audit::append_audit_event(self.root(), by, AuditEvent::revoked(token)));
    }

    /// Path of the state directory.
    fn root(&self) -> &Path {
        self.seal.root()
    }

    /// Removes these records, children first. Returns the removed ones.
    fn remove(&self, records: &[(String, TokenRecord)], gone: &[String]) -> Result<Vec<Token>, Problem> {
        let now = clock::wall_ms();
        let mut told = Vec::new();
        // Children first: after a crash in between, the rest can be revoked again.
        for (id, record) in gone.iter().rev().filter_map(|id| records.iter().find(|(known, _)| known == id)) {
            let view = self.view(id, record, now);
            match fs::remove_file(self.path(id, RECORD)) {
                Ok(()) => told.push(view),
                // A link that a browser used at this moment is gone as well.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let what = format!("cannot revoke the token `{}`: {error}", record.name);
                    return Err(Problem::refused(what));
                }
            }
            let _ = fs::remove_file(self.path(id, USED));
        }
        self.sync()?;
        told.reverse();
        Ok(told)
    }

    fn view(&self, id: &str, record: &TokenRecord, now: u64) -> Token {
        record.view(id, now, self.last_used_ms(id), !self.seal.is_ours(record))
    }

    /// The rights of the holder of this secret; `None` if the secret is not valid.
    pub fn check(&self, secret: &TokenSecret, kind: TokenKind) -> Option<VerifiedToken> {
        let hash = secret.hash();
        let id = hash.id();
        let record = self.ours(&id)?;
        let pass = record.pass(&id, &hash).filter(|pass| pass.kind == kind)?;
        (!record.is_expired(clock::wall_ms())).then_some(pass)
    }

    /// True if a pass that was valid a moment ago still is. Costs one look-up in a directory.
    pub fn holds(&self, pass: &VerifiedToken) -> bool {
        // A record never changes, so its existence is enough.
        !pass.is_over() && rustix::fs::lstat(self.path(&pass.id, RECORD)).is_ok()
    }

    /// True if a pass belongs to this secret, for callers that cache the result of a check.
    pub fn is_of(pass: &VerifiedToken, secret: &TokenSecret) -> bool {
        pass.hash.is(&secret.hash())
    }

    /// The public id of a secret.
    pub fn id_of(secret: &TokenSecret) -> String {
        secret.hash().id()
    }

    /// Records that the token was used, to the minute.
    pub fn note_use(&self, pass: &VerifiedToken) {
        let known = self.last_used_ms(&pass.id).unwrap_or_default();
        if clock::wall_ms().abs_diff(known) < milliseconds(USE_GRAIN) || !self.holds(pass) {
            return;
        }
        // Only for people: a failure to write it changes nothing.
        let _ = disk::write_atomically(&self.dir, &format!("{}.{USED}", pass.id), b"", false);
    }

    /// Logs one browser in by a link, once: the link becomes a login. Of several attempts one wins. `browser` is the
    /// description that the login is named after.
    pub fn claim(&self, link: &TokenSecret, place: &str, browser: &str) -> Result<NewToken, Problem> {
        let hash = link.hash();
        let id = hash.id();
        let used = || {
            Problem::refused("this link was used already: each lets one browser in, once")
                .hint("make another with `berth link`. If you did not use this one, `berth token ls` shows the login")
        };
        let is_this =
            |record: &TokenRecord| record.pass(&id, &hash).is_some_and(|pass| pass.kind == TokenKind::Link);
        let record = match self.ours(&id).filter(&is_this) {
            Some(record) => record,
            None if read(&self.path(&id, CLAIMED)).ok().flatten().is_some_and(|it| is_this(&it)) => {
                return Err(used());
            }
            None => {
                return Err(Problem::not_found("this link does not exist").hint("`berth link` makes another"));
            }
        };
        if record.is_expired(clock::wall_ms()) {
            return Err(Problem::refused("this link has expired").hint("`berth link` makes another"));
        }
        let _lock = self.lock()?;
        // The kernel decides: of two processes that rename one file, one succeeds.
        match fs::rename(self.path(&id, RECORD), self.path(&id, CLAIMED)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(used()),
            Err(error) => {
                return Err(Problem::refused(format!("cannot use the link: {error}")));
            }
        }
        self.sync()?;
        let ids =
            |sessions: &BTreeSet<String>| sessions.iter().filter_map(|id| SessionId::parse(id)).collect();
        let params = TokenParams {
            name: None,
            scope: record.scope,
            sessions: record.sessions.as_ref().map(ids),
            life: Some(LOGIN_LIFE),
        };
        // A login by a link that was made with a token ends with that token.
        let parent = record.parent.as_ref().map(|parent| self.pass_of(parent)).transpose()?;
        self.log_in_locked(params, TokenMaker { place, pass: parent.as_ref() }, browser)
    }

    /// The rights of the token of this id.
    fn pass_of(&self, id: &str) -> Result<VerifiedToken, Problem> {
        let pass = self.ours(id).and_then(|record| {
            let hash = secret::SecretHash::from_hex(&record.sha256)?;
            record.pass(id, &hash)
        });
        pass.ok_or_else(|| Problem::not_allowed("the token with which this link was made was revoked"))
    }

    /// The record of this id, if this state directory made it.
    fn ours(&self, id: &str) -> Option<TokenRecord> {
        let record = read(&self.path(id, RECORD)).ok().flatten()?;
        if !self.seal.is_ours(&record) {
            tracing::warn!(id, "the record of a token has no valid code of this state directory's key");
            return None;
        }
        Some(record)
    }

    fn path(&self, id: &str, ending: &str) -> PathBuf {
        self.dir.join(format!("{id}.{ending}"))
    }

    /// All records that can be read. An unreadable record is not a valid token, and authenticates no client.
    fn records(&self) -> Result<Vec<(String, TokenRecord)>, Problem> {
        let cannot =
            |error: io::Error| Problem::refused(format!("cannot read {}: {error}", self.dir.display()));
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let Some(id) = id_of(&path, RECORD) else { continue };
            match read(&path) {
                Ok(Some(record)) => records.push((id, record)),
                // Revoked at this moment.
                Ok(None) => {}
                Err(error) => tracing::warn!(?path, %error, "the record of a token cannot be read"),
            }
        }
        Ok(records)
    }

    /// Removes the records of browsers whose login has expired, and of links of yesterday. A token stays until it is
    /// revoked: its owner may want to know why it is refused.
    fn forget(&self, now: u64) -> Result<(), Problem> {
        for (id, record) in self.records()? {
            let over = match record.kind {
                TokenKind::Token => false,
                TokenKind::Login => record.is_expired(now),
                TokenKind::Link => record.is_expired(now.saturating_sub(milliseconds(LINK_MEMORY))),
            };
            if over {
                let _ = fs::remove_file(self.path(&id, RECORD));
                let _ = fs::remove_file(self.path(&id, USED));
            }
        }
        for path in fs::read_dir(&self.dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
            // The token was used at the moment at which it was revoked.
            if id_of(&path, USED).is_some_and(|id| !self.path(&id, RECORD).exists()) {
                let _ = fs::remove_file(&path);
            }
            let Some(id) = id_of(&path, CLAIMED) else { continue };
            let record = read(&path).ok().flatten();
            if record.is_none_or(|it| it.is_expired(now.saturating_sub(milliseconds(LINK_MEMORY)))) {
                let _ = fs::remove_file(self.path(&id, CLAIMED));
            }
        }
        Ok(())
    }

    fn last_used_ms(&self, id: &str) -> Option<u64> {
        let modified = fs::metadata(self.path(id, USED)).and_then(|it| it.modified()).ok()?;
        modified.duration_since(UNIX_EPOCH).ok().map(milliseconds)
    }

    fn lock(&self) -> Result<LockFile, Problem> {
        let path = self.dir.join("lock");
        let cannot = |error: io::Error| Problem::refused(format!("cannot lock {}: {error}", path.display()));
        let file = LockFile::open_or_create(&path).map_err(cannot)?;
        if !file.acquire(LOCK_PATIENCE).map_err(cannot)? {
            return Err(Problem::held("another command changes the tokens").hint("try again"));
        }
        Ok(file)
    }

    fn sync(&self) -> Result<(), Problem> {
        berth_host::disk::sync_dirs(&[&self.dir])
            .map_err(|error| Problem::refused(format!("cannot sync the change to disk: {error}")))
    }
}

/// A token, and everything that was made with it, parents first.
fn descendants(records: &[(String, TokenRecord)], id: &str) -> Vec<String> {
    let mut all = vec![id.to_owned()];
    let mut at = 0;
    while at < all.len() {
        let made = records.iter().filter(|(_, record)| record.parent.as_ref() == Some(&all[at]));
        let made: Vec<String> = made.map(|(id, _)| id.clone()).collect();
        all.extend(made);
        at += 1;
    }
    all
}

/// A sentence that says why a list of sessions does not confine this scope; `None` if it does, or if there is no list.
pub fn void_sessions(scope: AccessScope, has_sessions: bool) -> Option<String> {
    let is_void = has_sessions && scope >= AccessScope::Control;
    is_void.then(|| {
        format!(
            "a list of sessions does not confine the scope `{scope}`: it may start commands with your account, and those \
             reach every session"
        )
    })
}

/// Refuses a token with more rights than its maker.
fn check_not_wider(pass: &VerifiedToken, params: &TokenParams) -> Result<(), Problem> {
    if params.scope > pass.scope {
        let what =
            format!("a token of the scope `{}` may not make one of the scope `{}`", pass.scope, params.scope);
        return Err(Problem::not_allowed(what).hint("choose a lower scope"));
    }
    if !pass.covers_sessions(params.sessions.as_ref()) {
        return Err(Problem::not_allowed(
            "your token is for some sessions only, and the new one would be for more",
        )
        .hint("choose sessions of your own list"));
    }
    Ok(())
}

/// True if the caller may know of a token: a caller with some sessions only sees tokens for those.
fn is_visible_to(pass: Option<&VerifiedToken>, record: &TokenRecord) -> bool {
    let ids = |sessions: &BTreeSet<String>| sessions.iter().filter_map(|id| SessionId::parse(id)).collect();
    pass.is_none_or(|pass| {
        pass.covers_sessions(record.sessions.as_ref().map(ids).as_ref()) && record.scope <= pass.scope
    })
}

fn new_name(name: &str, known: &[(String, TokenRecord)]) -> Result<String, Problem> {
    let name = SafeName::parse(name).map_err(|bad| {
        Problem::usage(format!("`{}` is not a valid name: {bad}", name.escape_debug()))
            .hint("a name is letters, digits, `.`, `_` and `-`, as in `ci-bot`")
    })?;
    let looks_like_an_id = name.as_str().len() == secret::SecretHash::ID_CHARS
        && name.as_str().bytes().all(|b| b.is_ascii_hexdigit());
    if looks_like_an_id {
        return Err(
            Problem::usage(format!("`{name}` looks like the id of a token")).hint("choose another name")
        );
    }
    if known.iter().any(|(_, record)| record.name == name.as_str()) {
        return Err(Problem::refused(format!("a token `{name}` exists already"))
            .hint(format!("choose another name, or revoke that one with `berth token revoke {name}`")));
    }
    Ok(name.to_string())
}

/// This name, or this name with the first free number. It is shortened if it would be too long.
fn free_name(stem: &str, known: &[(String, TokenRecord)]) -> String {
    // The highest number has four digits: there are not more tokens than that.
    let most = SafeName::MAX_BYTES - "-1000".len();
    let stem = &stem[..stem.floor_char_boundary(most)];
    let is_free = |name: &String| !known.iter().any(|(_, record)| record.name == *name);
    let numbered = (2..).map(|number| format!("{stem}-{number}"));
    std::iter::once(stem.to_owned()).chain(numbered).find(is_free).expect("numbers do not end")
}

fn read(path: &Path) -> io::Result<Option<TokenRecord>> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, MAX_RECORD_BYTES), &mut text)?;
    Ok(Some(serde_json::from_slice(&text)?))
}

/// The id in the name of a file with this ending.
fn id_of(path: &Path, ending: &str) -> Option<String> {
    let stem = path.file_stem()?.to_str()?;
    (path.extension()?.to_str()? == ending && stem.len() == secret::SecretHash::ID_CHARS)
        .then(|| stem.to_owned())
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
