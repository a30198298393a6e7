use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

struct Place {
    root: PathBuf,
    tokens: Tokens,
}

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("berth-tokens-{}-{count}", std::process::id()));
        let home = Home::open(root.clone()).expect("a directory of our own");
        Self { root, tokens: Tokens::open(&home).expect("a directory of our own") }
    }

    fn mint(&self, kind: TokenKind, wish: &TokenWish, pass: Option<&Pass>) -> Result<NewToken, Problem> {
        self.tokens.mint(kind, wish, Maker { place: "a test", pass })
    }

    fn pass(&self, new: &NewToken) -> Option<Pass> {
        self.tokens.check(&Secret::parse(new.token.kind, &new.secret)?, new.token.kind)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn wish(scope: Scope) -> TokenWish {
    TokenWish { name: None, scope, sessions: None, life: None }
}

fn sessions(ids: &[&str]) -> Option<BTreeSet<SessionId>> {
    Some(ids.iter().map(|id| SessionId::parse(id).expect("an id")).collect())
}

const ONE: &str = "000000000001";
const TWO: &str = "000000000002";

#[test]
fn of_many_who_use_one_link_at_the_same_moment_exactly_one_gets_in() {
    let place = Place::new();
    for _ in 0..20 {
        let link = place.mint(TokenKind::Link, &wish(Scope::Send), None).expect("a link");
        let secret = Secret::parse(TokenKind::Link, &link.secret).expect("our own");
        let gate = std::sync::Barrier::new(8);
        let came: Vec<_> = std::thread::scope(|scope| {
            let try_it = || {
                gate.wait();
                place.tokens.claim(&secret, "a browser", "firefox-on-linux")
            };
            let tries: Vec<_> = (0..8).map(|_| scope.spawn(try_it)).collect();
            tries.into_iter().map(|it| it.join().expect("no panic")).collect()
        });
        let (won, lost): (Vec<_>, Vec<_>) = came.into_iter().partition(Result::is_ok);
        assert_eq!((won.len(), lost.len()), (1, 7));
        for lost in lost {
            let what = lost.err().expect("lost").what;
            assert!(what.contains("used already"), "{what}");
        }
        let cookie = won.into_iter().next().and_then(Result::ok).expect("one");
        let pass = place.pass(&cookie).expect("it is good");
        assert_eq!((pass.kind, pass.scope), (TokenKind::Login, Scope::Send));
        assert!(pass.expires_at_ms.is_some());
    }
}

#[test]
fn nobody_makes_a_token_that_goes_further_than_their_own() {
    let place = Place::new();
    let limited = TokenWish { sessions: sessions(&[ONE]), ..wish(Scope::Control) };
    let limited = TokenWish { life: Some(Duration::from_secs(3600)), ..limited };
    let parent = place.mint(TokenKind::Token, &limited, None).expect("a token");
    let pass = place.pass(&parent).expect("it is good");
    let refused = |wish: TokenWish| {
        let problem = place.mint(TokenKind::Token, &wish, Some(&pass)).err().expect("refused");
        assert_eq!(problem.code, Code::NotAllowed, "{problem}");
    };
    refused(TokenWish { sessions: sessions(&[ONE]), ..wish(Scope::Admin) });
    refused(TokenWish { sessions: sessions(&[ONE, TWO]), ..wish(Scope::Read) });
    refused(TokenWish { sessions: sessions(&[TWO]), ..wish(Scope::Read) });
    refused(wish(Scope::Read));
    let child =
        TokenWish { sessions: sessions(&[ONE]), life: Some(Duration::from_secs(7200)), ..wish(Scope::Read) };
    let child = place.mint(TokenKind::Token, &child, Some(&pass)).expect("within");
    assert_eq!(child.token.expires_at, parent.token.expires_at, "it ends with its parent");
    assert_eq!(place.tokens.list(Some(&pass)).map(|it| it.len()), Ok(2));
    place.mint(TokenKind::Token, &wish(Scope::Read), None).expect("of somebody else");
    assert_eq!(place.tokens.list(Some(&pass)).map(|it| it.len()), Ok(2), "strangers are not listed");
}

#[test]
fn what_was_made_with_a_token_goes_with_it() {
    let place = Place::new();
    let named = |name: &str| TokenWish { name: Some(name.to_owned()), ..wish(Scope::Admin) };
    let parent = place.mint(TokenKind::Token, &named("parent"), None).expect("a token");
    let stranger = place.mint(TokenKind::Token, &named("stranger"), None).expect("a token");
    let pass = place.pass(&parent).expect("good");
    let child = place.mint(TokenKind::Token, &named("child"), Some(&pass)).expect("a token");
    let of_child = place.pass(&child).expect("good");
    let link = place.mint(TokenKind::Link, &wish(Scope::Read), Some(&of_child)).expect("a link");
    let link = Secret::parse(TokenKind::Link, &link.secret).expect("our own");
    let cookie = place.tokens.claim(&link, "a browser", "firefox-on-linux").expect("the first");
    let gone = place.tokens.revoke("parent", None).expect("it is there");
    assert_eq!(
        gone.iter().map(|it| it.kind).collect::<Vec<_>>(),
        [TokenKind::Token, TokenKind::Token, TokenKind::Login]
    );
    assert!([&parent, &child, &cookie].iter().all(|it| place.pass(it).is_none()));
    assert!(!place.tokens.holds(&pass) && place.pass(&stranger).is_some());
    let problem = place.mint(TokenKind::Token, &named("late"), Some(&pass)).err();
    assert_eq!(problem.map(|it| it.code), Some(Code::NotAllowed), "whoever is revoked makes nothing");
}

#[test]
fn names_are_unique_and_no_secret_is_on_disk() {
    let place = Place::new();
    let named = |name: &str| TokenWish { name: Some(name.to_owned()), ..wish(Scope::Read) };
    let new = place.mint(TokenKind::Token, &named("bot"), None).expect("a token");
    let code = |name: &str| place.mint(TokenKind::Token, &named(name), None).err().map(|it| it.code);
    assert_eq!(code("bot"), Some(Code::Refused));
    for bad in ["", "../x", "a b", "0123456789ab"] {
        assert_eq!(code(bad), Some(Code::Usage), "{bad}");
    }
    for entry in fs::read_dir(&place.tokens.dir).expect("ours").flatten() {
        let text = fs::read_to_string(entry.path()).expect("text");
        assert!(!text.contains(&new.secret[6..20]), "{:?}", entry.path());
        let mode = std::os::unix::fs::PermissionsExt::mode(&entry.metadata().expect("ours").permissions());
        assert_eq!(mode & 0o777, 0o600, "{:?}", entry.path());
    }
}

#[test]
fn a_record_with_a_field_of_a_later_version_lets_nobody_in() {
    let place = Place::new();
    let new = place.mint(TokenKind::Token, &wish(Scope::Admin), None).expect("a token");
    let path = place.tokens.path(&new.token.id, RECORD);
    let mut record: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).expect("ours")).expect("JSON");
    assert!(place.pass(&new).is_some());
    record["only_on_tuesdays"] = true.into();
    fs::write(&path, record.to_string()).expect("ours");
    assert!(place.pass(&new).is_none());
}

#[test]
fn h3_what_has_expired_by_our_clock_lets_nobody_in_and_is_still_listed() {
    let place = Place::new();
    let short = TokenWish { life: Some(Duration::ZERO), ..wish(Scope::Admin) };
    let new = place.mint(TokenKind::Token, &short, None).expect("a token");
    assert!(place.pass(&new).is_none());
    let listed = place.tokens.list(None).expect("ours");
    assert!(listed.iter().any(|it| it.id == new.token.id && it.expired));
    let link = place.mint(TokenKind::Link, &short, None).expect("a link");
    let link = Secret::parse(TokenKind::Link, &link.secret).expect("our own");
    let problem = place.tokens.claim(&link, "a browser", "firefox-on-linux").err().expect("refused");
    assert!(problem.what.contains("expired"), "{problem}");
}

#[test]
fn whoever_owns_the_state_directory_can_make_a_token_when_nobody_else_can() {
    let place = Place::new();
    let admin = place.mint(TokenKind::Token, &wish(Scope::Admin), None).expect("a token");
    let pass = place.pass(&admin).expect("it is good");
    let json = fs::read(place.tokens.path(&admin.token.id, RECORD)).expect("a record");
    for number in 1..MOST_TOKENS - OWNERS_RESERVE {
        let id = format!("{number:0width$x}", width = secret::Hash::ID_CHARS);
        fs::write(place.tokens.path(&id, RECORD), &json).expect("a record");
    }
    let refused = place.mint(TokenKind::Token, &wish(Scope::Read), Some(&pass)).err().expect("no room");
    assert_eq!(refused.code, Code::Full);
    place.mint(TokenKind::Login, &wish(Scope::Read), Some(&pass)).err().expect("nor for a browser");
    place.mint(TokenKind::Token, &wish(Scope::Read), None).expect("room for the owner");
}

#[test]
fn the_browser_that_makes_room_takes_along_what_was_made_with_it() {
    let place = Place::new();
    let admin = place.mint(TokenKind::Token, &wish(Scope::Admin), None).expect("a token");
    let pass = place.pass(&admin).expect("it is good");
    let enter = || place.mint(TokenKind::Login, &wish(Scope::Admin), Some(&pass)).expect("a browser");
    let first = enter();
    let made =
        place.mint(TokenKind::Token, &wish(Scope::Read), place.pass(&first).as_ref()).expect("a token");
    // The clock is in milliseconds: what is older is told by that.
    let then = clock::wall_ms();
    while clock::wall_ms() <= then {
        std::thread::yield_now();
    }
    let later: Vec<NewToken> = (1..MOST_BROWSERS).map(|_| enter()).collect();
    assert!(place.pass(&first).is_some() && place.pass(&made).is_some());
    let last = enter();
    assert!(place.pass(&first).is_none() && place.pass(&made).is_none());
    assert!(later.iter().chain([&last]).all(|new| place.pass(new).is_some()));
}

#[test]
fn a_life_that_never_ends_is_not_written_as_a_number() {
    let place = Place::new();
    let ages = TokenWish { life: Some(Duration::from_millis(u64::MAX)), ..wish(Scope::Read) };
    assert_eq!(place.mint(TokenKind::Token, &ages, None).err().expect("too long").code, Code::Usage);
}

#[test]
fn browsers_are_called_after_what_they_look_like_each_by_another_name() {
    let place = Place::new();
    let enter = |browser: &str| {
        let maker = Maker { place: "a browser", pass: None };
        place.tokens.log_in(wish(Scope::Read), maker, browser).expect("room").token.name
    };
    assert_eq!(enter("firefox-on-linux"), "firefox-on-linux");
    assert_eq!(enter("firefox-on-linux"), "firefox-on-linux-2");
    assert_eq!(enter("safari-on-iphone"), "safari-on-iphone");
    place.tokens.revoke("firefox-on-linux", None).expect("it is there");
    assert_eq!(enter("firefox-on-linux"), "firefox-on-linux", "who left makes room");
    let long = enter(&"x".repeat(200));
    assert!(Name::parse(&long).is_ok() && Name::parse(&enter(&long)).is_ok(), "{long}");
}

#[test]
fn a_record_of_another_state_directory_opens_nothing_and_neither_does_an_edited_one() {
    let (here, there) = (Place::new(), Place::new());
    let copy = |id: &str| {
        let record = fs::read_to_string(there.tokens.path(id, RECORD)).expect("a record");
        fs::write(here.tokens.path(id, RECORD), record).expect("our own directory");
    };
    for kind in [TokenKind::Token, TokenKind::Login, TokenKind::Link] {
        let stranger = there.mint(kind, &wish(Scope::Admin), None).expect("a token");
        copy(&stranger.token.id);
        assert!(there.pass(&stranger).is_some() && here.pass(&stranger).is_none(), "{kind:?}");
        let listed = here.tokens.list(None).expect("a list");
        assert!(listed.iter().any(|it| it.id == stranger.token.id && it.void), "{listed:?}");
        if kind == TokenKind::Link {
            let secret = Secret::parse(kind, &stranger.secret).expect("our own");
            assert!(here.tokens.claim(&secret, "a browser", "firefox").is_err());
        }
    }
    let own = here.mint(TokenKind::Token, &wish(Scope::Read), None).expect("a token");
    assert!(!own.token.void && here.pass(&own).is_some());
    let path = here.tokens.path(&own.token.id, RECORD);
    let record = fs::read_to_string(&path).expect("a record");
    for edited in [record.replace("\"read\"", "\"admin\""), record.replace("\"mac\": \"", "\"mac\": \"00")] {
        assert_ne!(edited, record);
        fs::write(&path, edited).expect("our own file");
        assert!(here.pass(&own).is_none());
    }
    fs::write(&path, record).expect("our own file");
    assert!(here.pass(&own).is_some());
}

#[test]
fn without_the_key_of_the_state_directory_all_tokens_are_void_and_new_ones_can_be_made() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let old = place.mint(TokenKind::Token, &wish(Scope::Admin), None).expect("a token");
    let key = place.root.join("token.key");
    let mode = fs::metadata(&key).expect("a key").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    fs::remove_file(&key).expect("our own file");
    assert!(place.pass(&old).is_none());
    let home = Home::open(place.root.clone()).expect("the same directory");
    let tokens = Tokens::open(&home).expect("the same directory");
    assert!(place.pass(&old).is_none(), "a new key is another one");
    assert!(tokens.list(None).expect("a list").iter().all(|it| it.void));
    let new = place.mint(TokenKind::Token, &wish(Scope::Admin), None).expect("a token");
    assert!(place.pass(&new).is_some());
    fs::write(&key, "short").expect("our own file");
    assert!(Tokens::open(&home).expect_err("a damaged key").what.contains("damaged"));
}

#[test]
fn of_many_who_open_a_new_state_directory_at_once_all_have_one_key() {
    let place = Place::new();
    for _ in 0..10 {
        fs::remove_file(place.root.join("token.key")).expect("our own file");
        let home = Home::open(place.root.clone()).expect("the same directory");
        let gate = std::sync::Barrier::new(8);
        let made: Vec<NewToken> = std::thread::scope(|scope| {
            let make = || {
                gate.wait();
                let tokens = Tokens::open(&home).expect("the same directory");
                let maker = Maker { place: "a test", pass: None };
                tokens.mint(TokenKind::Token, &wish(Scope::Read), maker).expect("a token")
            };
            let all: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            all.into_iter().map(|it| it.join().expect("no panic")).collect()
        });
        assert!(made.iter().all(|new| place.pass(new).is_some()));
    }
    let left = fs::read_dir(&place.root).expect("ours").flatten();
    assert!(left.map(|it| it.file_name()).all(|name| !name.to_string_lossy().ends_with(".tmp")));
}
