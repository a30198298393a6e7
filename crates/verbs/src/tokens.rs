//! Tokens: who may do what over HTTP.
//!
//! Promise: a secret is told once and stored nowhere, only its SHA-256 is; a record appears whole and never changes;
//! a record of another state directory opens nothing; a revoked token is gone from disk when the caller hears of it, with
//! everything that was made with it; nobody makes a token that goes further than their own; of two who use a link only one
//! is let in.
//! Not here: what a request may do (see the gateway).
//! Start with [`Tokens::mint`] and [`Tokens::check`]. Why it is so: docs/design/auth.md.

mod record;
mod seal;
mod secret;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use berth_api::{Code, NewToken, Problem, Scope, Token, TokenKind};
use berth_core::{Name, SessionId};
use berth_host::lock::LockFile;
use berth_host::{clock, dir, disk};
use berth_keeper::audit::{self, AuditEvent};
use berth_store::Home;

pub use record::Pass;
use record::Record;
use seal::Seal;
pub use secret::Secret;

/// How many tokens, logins and links there may be.
const MOST_TOKENS: usize = 1000;
/// How many of them only the owner of the state directory may make: nobody with a token locks them out.
const OWNERS_RESERVE: usize = 100;
/// How many browsers may be logged in with one token; the one that has been for longest makes room.
pub const MOST_BROWSERS: usize = 20;
/// The largest record that is read.
const MAX_RECORD_BYTES: u64 = 64 << 10;
/// How many sessions a token may name.
const MOST_SESSIONS: usize = 256;
/// How long somebody else may take to make or revoke one.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// How exactly it is known when a token was last used.
const USE_GRAIN: Duration = Duration::from_secs(60);
/// How long a token is good for if its maker does not say.
pub const TOKEN_LIFE: Duration = Duration::from_secs(90 * 24 * 3600);
/// How long a link is good for if nobody says.
pub const LINK_LIFE: Duration = Duration::from_secs(10 * 60);
/// The longest a link is good for.
pub const LONGEST_LINK_LIFE: Duration = Duration::from_secs(24 * 3600);
/// How long a browser stays logged in.
pub const LOGIN_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
/// The longest life of anything that has an end: who wants more wants none.
const LONGEST_LIFE: Duration = Duration::from_secs(100 * 366 * 24 * 3600);
/// For how long after its end a link is still known to have been used, or to have ended.
const LINK_MEMORY: Duration = Duration::from_secs(24 * 3600);

const RECORD: &str = "json";
const CLAIMED: &str = "claimed";
const USED: &str = "used";

/// The tokens of a state directory.
#[derive(Clone, Debug)]
pub struct Tokens {
    dir: PathBuf,
    seal: Seal,
}

/// What somebody wants of a new token.
#[derive(Clone, Debug)]
pub struct TokenWish {
    /// What it is called; one is found if nothing is said.
    pub name: Option<String>,
    /// How far it goes.
    pub scope: Scope,
    /// The only sessions it is for.
    pub sessions: Option<BTreeSet<SessionId>>,
    /// How long it is good for; `None` is for ever.
    pub life: Option<Duration>,
}

/// Who makes one.
#[derive(Clone, Copy, Debug)]
pub struct Maker<'a> {
    /// Where they are, for people.
    pub place: &'a str,
    /// What they may do themselves; whoever owns the state directory may do everything.
    pub pass: Option<&'a Pass>,
}

impl Tokens {
    /// The tokens of this state directory.
    pub fn open(home: &Home) -> Result<Self, Problem> {
        let dir = home.root().join("tokens");
        let cannot = |error: String| Problem::new(Code::Refused, format!("cannot keep tokens: {error}"));
        dir::private_dir(&dir).map_err(|error| cannot(error.to_string()))?;
        let seal = Seal::open(home.root()).map_err(|error| cannot(error.to_string()))?;
        Ok(Self { dir, seal })
    }

    /// Makes one. The secret is in the answer and nowhere else.
    pub fn mint(&self, kind: TokenKind, wish: &TokenWish, maker: Maker<'_>) -> Result<NewToken, Problem> {
        let _lock = self.lock()?;
        self.mint_locked(kind, wish, maker)
    }

    /// Logs a browser in. It is called after `browser`, what it looks like to people, and a number if another one is
    /// called so already.
    pub fn log_in(&self, wish: TokenWish, maker: Maker<'_>, browser: &str) -> Result<NewToken, Problem> {
        let _lock = self.lock()?;
        self.log_in_locked(wish, maker, browser)
    }

    fn log_in_locked(&self, wish: TokenWish, maker: Maker<'_>, browser: &str) -> Result<NewToken, Problem> {
        let name = Some(free_name(browser, &self.records()?));
        self.mint_locked(TokenKind::Login, &TokenWish { name, ..wish }, maker)
    }

    fn mint_locked(&self, kind: TokenKind, wish: &TokenWish, maker: Maker<'_>) -> Result<NewToken, Problem> {
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
            return Err(Problem::new(Code::Full, format!("there are {most} tokens already"))
                .hint("`berth token ls` lists them; revoke what is not needed with `berth token revoke`"));
        }
        if wish.sessions.as_ref().is_some_and(|sessions| sessions.len() > MOST_SESSIONS) {
            let what = format!("a token names at most {MOST_SESSIONS} sessions");
            return Err(Problem::new(Code::Usage, what).hint("leave the list out for all sessions"));
        }
        if wish.life.is_some_and(|life| life > LONGEST_LIFE) {
            return Err(Problem::new(Code::Usage, "a token lives at most a hundred years")
                .hint("`--expires never` makes one that does not end"));
        }
        let mut expires_at_ms = wish.life.map(|life| now.saturating_add(milliseconds(life)));
        if let Some(pass) = maker.pass {
            // Whoever was revoked a moment ago makes nothing any more.
            if !self.holds(pass) {
                return Err(Problem::new(Code::NotAllowed, "your own token was revoked, or has expired"));
            }
            is_no_wider(pass, wish)?;
            // Nor does it live longer: it could be made again and again, and never end.
            expires_at_ms = [expires_at_ms, pass.expires_at_ms].into_iter().flatten().min();
        }
        let cannot = |error: io::Error| Problem::new(Code::Refused, format!("cannot make a token: {error}"));
        let secret = Secret::mint(kind).map_err(cannot)?;
        let hash = secret.hash();
        let id = hash.id();
        let name = match &wish.name {
            Some(name) => new_name(name, &known)?,
            None => format!("{}-{}", kind.word(), &id[..6]),
        };
        let mut record = Record {
            kind,
            name,
            sha256: hash.hex(),
            scope: wish.scope,
            sessions: wish.sessions.as_ref().map(|ids| ids.iter().map(ToString::to_string).collect()),
            created_at_ms: now,
            created_by: maker.place.to_owned(),
            parent: maker.pass.map(|pass| pass.id.clone()),
            expires_at_ms,
            mac: String::new(),
        };
        self.seal.close(&mut record).map_err(cannot)?;
        let json = serde_json::to_vec_pretty(&record)
            .map_err(|error| Problem::new(Code::Bug, format!("cannot write down a token: {error}")))?;
        if self.path(&id, RECORD).exists() {
            return Err(Problem::new(Code::Refused, "two secrets have the same id").hint("try again"));
        }
        disk::write_atomically(&self.dir, &format!("{id}.{RECORD}"), &json, true).map_err(cannot)?;
        let token = record.view(&id, now, None, false);
        audit::note(self.root(), maker.place, AuditEvent::made(&token));
        Ok(NewToken { secret: secret.text().to_owned(), token })
    }

    /// Logs out the browsers that were logged in with a token for longest, and what was made with them, so that one
    /// more has room.
    fn make_room(&self, known: &mut Vec<(String, Record)>, parent: &str, by: &str) -> Result<(), Problem> {
        let is_theirs = |it: &Record| it.kind == TokenKind::Login && it.parent.as_deref() == Some(parent);
        let mut theirs: Vec<(u64, String)> = known
            .iter()
            .filter(|(_, record)| is_theirs(record))
            .map(|(id, record)| (record.created_at_ms, id.clone()))
            .collect();
        theirs.sort();
        let over = (theirs.len() + 1).saturating_sub(MOST_BROWSERS);
        for (_, id) in &theirs[..over] {
            let gone = with_all_below(known, id);
            self.note_revoked(by, &self.remove(known, &gone)?);
            known.retain(|(id, _)| !gone.contains(id));
        }
        Ok(())
    }

    /// All that somebody may know of, the oldest first. `pass` is what they may do themselves.
    pub fn list(&self, pass: Option<&Pass>) -> Result<Vec<Token>, Problem> {
        let now = clock::wall_ms();
        let mut records = self.records()?;
        records.sort_by_key(|(_, record)| record.created_at_ms);
        let seen = records.iter().filter(|(_, record)| may_know(pass, record));
        Ok(seen.map(|(id, record)| self.view(id, record, now)).collect())
    }

    /// Takes back the token of this name or id, and what was made with it. Tells what is gone.
    pub fn revoke(&self, handle: &str, pass: Option<&Pass>) -> Result<Vec<Token>, Problem> {
        let _lock = self.lock()?;
        let records = self.records()?;
        let is_meant = |(id, record): &&(String, Record)| id == handle || record.name == handle;
        let found = records.iter().filter(|(_, record)| may_know(pass, record)).find(is_meant);
        let Some((id, _)) = found else {
            return Err(Problem::new(
                Code::NotFound,
                format!("there is no token `{}`", handle.escape_debug()),
            )
            .hint("`berth token ls` lists what there is"));
        };
        self.remove(&records, &with_all_below(&records, id))
    }

    /// Logs who revoked what. Called after [`Tokens::revoke`], which does not know where its caller is.
    pub fn note_revoked(&self, by: &str, gone: &[Token]) {
        gone.iter().for_each(|token| audit::note(self.root(), by, AuditEvent::revoked(token)));
    }

    /// The state directory.
    fn root(&self) -> &Path {
        self.seal.root()
    }

    /// Removes these, each before what it was made with. Tells what is gone.
    fn remove(&self, records: &[(String, Record)], gone: &[String]) -> Result<Vec<Token>, Problem> {
        let now = clock::wall_ms();
        let mut told = Vec::new();
        // The children first: killed in between, what is left can be revoked again.
        for (id, record) in gone.iter().rev().filter_map(|id| records.iter().find(|(known, _)| known == id)) {
            let view = self.view(id, record, now);
            match fs::remove_file(self.path(id, RECORD)) {
                Ok(()) => told.push(view),
                // A link that somebody used this moment is no more, either.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let what = format!("cannot revoke the token `{}`: {error}", record.name);
                    return Err(Problem::new(Code::Refused, what));
                }
            }
            let _ = fs::remove_file(self.path(id, USED));
        }
        self.sync()?;
        told.reverse();
        Ok(told)
    }

    fn view(&self, id: &str, record: &Record, now: u64) -> Token {
        record.view(id, now, self.last_used_ms(id), !self.seal.is_ours(record))
    }

    /// What somebody may do who shows this secret; `None` if it is not a good one.
    pub fn check(&self, secret: &Secret, kind: TokenKind) -> Option<Pass> {
        let hash = secret.hash();
        let id = hash.id();
        let record = self.ours(&id)?;
        let pass = record.pass(&id, &hash).filter(|pass| pass.kind == kind)?;
        (!record.is_expired(clock::wall_ms())).then_some(pass)
    }

    /// Whether what was good a moment ago still is. Costs one look at a directory.
    pub fn holds(&self, pass: &Pass) -> bool {
        // A record never changes, so it is enough that it is there.
        !pass.is_over() && rustix::fs::lstat(self.path(&pass.id, RECORD)).is_ok()
    }

    /// Whether a pass belongs to this secret, for who remembers what was checked before.
    pub fn is_of(pass: &Pass, secret: &Secret) -> bool {
        pass.hash.is(&secret.hash())
    }

    /// The public id of a secret.
    pub fn id_of(secret: &Secret) -> String {
        secret.hash().id()
    }

    /// Remembers that it was used, to the minute.
    pub fn note_use(&self, pass: &Pass) {
        let known = self.last_used_ms(&pass.id).unwrap_or_default();
        if clock::wall_ms().abs_diff(known) < milliseconds(USE_GRAIN) || !self.holds(pass) {
            return;
        }
        // Only for people: that it cannot be written changes nothing.
        let _ = disk::write_atomically(&self.dir, &format!("{}.{USED}", pass.id), b"", false);
    }

    /// Lets one browser in by a link, once: the link becomes a login. Of many who try, one wins.
    /// `browser` is what it is called after.
    pub fn claim(&self, link: &Secret, place: &str, browser: &str) -> Result<NewToken, Problem> {
        let hash = link.hash();
        let id = hash.id();
        let used = || {
            Problem::new(Code::Refused, "this link was used already: each lets one browser in, once")
                .hint("`berth link` makes another; if it was not you who used it, see `berth token ls`")
        };
        let is_this =
            |record: &Record| record.pass(&id, &hash).is_some_and(|pass| pass.kind == TokenKind::Link);
        let record = match self.ours(&id).filter(&is_this) {
            Some(record) => record,
            None if read(&self.path(&id, CLAIMED)).ok().flatten().is_some_and(|it| is_this(&it)) => {
                return Err(used());
            }
            None => {
                return Err(
                    Problem::new(Code::NotFound, "there is no such link").hint("`berth link` makes another")
                );
            }
        };
        if record.is_expired(clock::wall_ms()) {
            return Err(
                Problem::new(Code::Refused, "this link has expired").hint("`berth link` makes another")
            );
        }
        let _lock = self.lock()?;
        // The kernel decides: of two who rename one file, one finds it.
        match fs::rename(self.path(&id, RECORD), self.path(&id, CLAIMED)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(used()),
            Err(error) => {
                return Err(Problem::new(Code::Refused, format!("cannot use the link: {error}")));
            }
        }
        self.sync()?;
        let ids =
            |sessions: &BTreeSet<String>| sessions.iter().filter_map(|id| SessionId::parse(id)).collect();
        let wish = TokenWish {
            name: None,
            scope: record.scope,
            sessions: record.sessions.as_ref().map(ids),
            life: Some(LOGIN_LIFE),
        };
        // A login by a link that was made with a token ends with that token.
        let parent = record.parent.as_ref().map(|parent| self.pass_of(parent)).transpose()?;
        self.log_in_locked(wish, Maker { place, pass: parent.as_ref() }, browser)
    }

    /// What the token of this id allows.
    fn pass_of(&self, id: &str) -> Result<Pass, Problem> {
        let pass = self.ours(id).and_then(|record| {
            let hash = secret::Hash::from_hex(&record.sha256)?;
            record.pass(id, &hash)
        });
        pass.ok_or_else(|| Problem::new(Code::NotAllowed, "what this was made with was revoked"))
    }

    /// The record of this id, if it was made here.
    fn ours(&self, id: &str) -> Option<Record> {
        let record = read(&self.path(id, RECORD)).ok().flatten()?;
        if !self.seal.is_ours(&record) {
            tracing::warn!(id, "the record of a token was not made with the key of this state directory");
            return None;
        }
        Some(record)
    }

    fn path(&self, id: &str, ending: &str) -> PathBuf {
        self.dir.join(format!("{id}.{ending}"))
    }

    /// All records that can be read. One that cannot be is no token, and lets nobody in.
    fn records(&self) -> Result<Vec<(String, Record)>, Problem> {
        let cannot = |error: io::Error| {
            Problem::new(Code::Refused, format!("cannot read {}: {error}", self.dir.display()))
        };
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let Some(id) = id_of(&path, RECORD) else { continue };
            match read(&path) {
                Ok(Some(record)) => records.push((id, record)),
                // Revoked this moment.
                Ok(None) => {}
                Err(error) => tracing::warn!(?path, %error, "the record of a token cannot be read"),
            }
        }
        Ok(records)
    }

    /// Takes away the records of browsers that are logged out by now, and of links of yesterday. A token stays
    /// until it is revoked: somebody may want to know why it is refused.
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
            // Somebody used it in the moment it was revoked.
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
        let cannot = |error: io::Error| {
            Problem::new(Code::Refused, format!("cannot lock {}: {error}", path.display()))
        };
        let file = LockFile::open_or_create(&path).map_err(cannot)?;
        if !file.acquire(LOCK_PATIENCE).map_err(cannot)? {
            return Err(Problem::new(Code::Held, "another command changes the tokens").hint("try again"));
        }
        Ok(file)
    }

    fn sync(&self) -> Result<(), Problem> {
        berth_host::disk::sync_dirs(&[&self.dir])
            .map_err(|error| Problem::new(Code::Refused, format!("cannot make the change last: {error}")))
    }
}

/// A token, and everything that was made with it, each behind what it was made with.
fn with_all_below(records: &[(String, Record)], id: &str) -> Vec<String> {
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
pub fn void_sessions(scope: Scope, has_sessions: bool) -> Option<String> {
    let is_void = has_sessions && scope >= Scope::Control;
    is_void.then(|| {
        format!(
            "a list of sessions does not confine the scope `{scope}`: it may start commands with your account, and those \
             reach every session"
        )
    })
}

/// Refuses a token that goes further than its maker may.
fn is_no_wider(pass: &Pass, wish: &TokenWish) -> Result<(), Problem> {
    if wish.scope > pass.scope {
        let what = format!("a token of the scope `{}` makes none of the scope `{}`", pass.scope, wish.scope);
        return Err(Problem::new(Code::NotAllowed, what).hint("ask for a lesser scope"));
    }
    if !pass.covers(wish.sessions.as_ref()) {
        return Err(Problem::new(
            Code::NotAllowed,
            "your token is for some sessions only, and this would be for more",
        )
        .hint("name sessions out of your own list"));
    }
    Ok(())
}

/// Whether somebody may know of a token: whoever has some sessions only knows what is within them.
fn may_know(pass: Option<&Pass>, record: &Record) -> bool {
    let ids = |sessions: &BTreeSet<String>| sessions.iter().filter_map(|id| SessionId::parse(id)).collect();
    pass.is_none_or(|pass| {
        pass.covers(record.sessions.as_ref().map(ids).as_ref()) && record.scope <= pass.scope
    })
}

fn new_name(name: &str, known: &[(String, Record)]) -> Result<String, Problem> {
    let name = Name::parse(name).map_err(|bad| {
        Problem::new(Code::Usage, format!("`{}` is not a valid name: {bad}", name.escape_debug()))
            .hint("a name is letters, digits, `.`, `_` and `-`, as in `ci-bot`")
    })?;
    let looks_like_an_id =
        name.as_str().len() == secret::Hash::ID_CHARS && name.as_str().bytes().all(|b| b.is_ascii_hexdigit());
    if looks_like_an_id {
        return Err(Problem::new(Code::Usage, format!("`{name}` looks like the id of a token"))
            .hint("choose another name"));
    }
    if known.iter().any(|(_, record)| record.name == name.as_str()) {
        return Err(Problem::new(Code::Refused, format!("there is a token called `{name}` already"))
            .hint(format!("choose another name, or take that one back with `berth token revoke {name}`")));
    }
    Ok(name.to_string())
}

/// This name, or the same with the first number that nobody has. It is cut where it would be too long.
fn free_name(stem: &str, known: &[(String, Record)]) -> String {
    // The longest number has four digits: there are not more tokens than that.
    let most = Name::MAX_BYTES - "-1000".len();
    let stem = &stem[..stem.floor_char_boundary(most)];
    let is_free = |name: &String| !known.iter().any(|(_, record)| record.name == *name);
    let numbered = (2..).map(|number| format!("{stem}-{number}"));
    std::iter::once(stem.to_owned()).chain(numbered).find(is_free).expect("numbers do not end")
}

fn read(path: &Path) -> io::Result<Option<Record>> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, MAX_RECORD_BYTES), &mut text)?;
    Ok(Some(serde_json::from_slice(&text)?))
}

/// The id in the name of a file that ends so.
fn id_of(path: &Path, ending: &str) -> Option<String> {
    let stem = path.file_stem()?.to_str()?;
    (path.extension()?.to_str()? == ending && stem.len() == secret::Hash::ID_CHARS).then(|| stem.to_owned())
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
