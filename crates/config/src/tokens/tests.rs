use berth_test_dir::TestDir;

use berth_api::ProblemCode;

use super::*;

struct TokenStoreFixture {
    root: TestDir,
    tokens: TokenStore,
}

impl TokenStoreFixture {
    fn new() -> Self {
        let root = TestDir::new();
        let home = StateDir::open(root.to_path_buf()).expect("a directory of our own");
        Self { root, tokens: TokenStore::open(&home).expect("a directory of our own") }
    }

    fn mint(
        &self,
        kind: TokenKind,
        params: &TokenParams,
        pass: Option<&VerifiedToken>,
    ) -> Result<NewToken, Problem> {
        self.tokens.mint(kind, params, TokenMaker { place: "a test", pass })
    }

    fn pass(&self, new: &NewToken) -> Option<VerifiedToken> {
        self.tokens.check(&TokenSecret::parse(new.token.kind, &new.secret)?, new.token.kind)
    }
}

fn params(scope: AccessScope) -> TokenParams {
    TokenParams { name: None, scope, sessions: None, life: None }
}

fn sessions(ids: &[&str]) -> Option<BTreeSet<SessionId>> {
    Some(ids.iter().map(|id| SessionId::parse(id).expect("an id")).collect())
}

const ONE: &str = "000000000001";
const TWO: &str = "000000000002";

#[test]
fn of_many_browsers_that_use_one_link_at_once_exactly_one_logs_in() {
    let place = TokenStoreFixture::new();
    for _ in 0..20 {
        let link = place.mint(TokenKind::Link, &params(AccessScope::Send), None).expect("a link");
        let secret = TokenSecret::parse(TokenKind::Link, &link.secret).expect("our own");
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
        assert_eq!((pass.kind, pass.scope), (TokenKind::Login, AccessScope::Send));
        assert!(pass.expires_at_ms.is_some());
    }
}

#[test]
fn a_token_never_has_more_rights_than_its_maker() {
    let place = TokenStoreFixture::new();
    let limited = TokenParams { sessions: sessions(&[ONE]), ..params(AccessScope::Control) };
    let limited = TokenParams { life: Some(Duration::from_secs(3600)), ..limited };
    let parent = place.mint(TokenKind::Token, &limited, None).expect("a token");
    let pass = place.pass(&parent).expect("it is good");
    let refused = |params: TokenParams| {
        let problem = place.mint(TokenKind::Token, &params, Some(&pass)).err().expect("refused");
        assert_eq!(problem.code, ProblemCode::NotAllowed, "{problem}");
    };
    refused(TokenParams { sessions: sessions(&[ONE]), ..params(AccessScope::Admin) });
    refused(TokenParams { sessions: sessions(&[ONE, TWO]), ..params(AccessScope::Read) });
    refused(TokenParams { sessions: sessions(&[TWO]), ..params(AccessScope::Read) });
    refused(params(AccessScope::Read));
    let child = TokenParams {
        sessions: sessions(&[ONE]),
        life: Some(Duration::from_secs(7200)),
        ..params(AccessScope::Read)
    };
    let child = place.mint(TokenKind::Token, &child, Some(&pass)).expect("within");
    assert_eq!(child.token.expires_at, parent.token.expires_at, "it ends with its parent");
    assert_eq!(place.tokens.list(Some(&pass)).map(|it| it.len()), Ok(2));
    place.mint(TokenKind::Token, &params(AccessScope::Read), None).expect("a token of another maker");
    assert_eq!(place.tokens.list(Some(&pass)).map(|it| it.len()), Ok(2), "strangers are not listed");
}

#[test]
fn revoking_a_token_revokes_what_was_made_with_it() {
    let place = TokenStoreFixture::new();
    let named = |name: &str| TokenParams { name: Some(name.to_owned()), ..params(AccessScope::Admin) };
    let parent = place.mint(TokenKind::Token, &named("parent"), None).expect("a token");
    let stranger = place.mint(TokenKind::Token, &named("stranger"), None).expect("a token");
    let pass = place.pass(&parent).expect("good");
    let child = place.mint(TokenKind::Token, &named("child"), Some(&pass)).expect("a token");
    let of_child = place.pass(&child).expect("good");
    let link = place.mint(TokenKind::Link, &params(AccessScope::Read), Some(&of_child)).expect("a link");
    let link = TokenSecret::parse(TokenKind::Link, &link.secret).expect("our own");
    let cookie = place.tokens.claim(&link, "a browser", "firefox-on-linux").expect("the first");
    let gone = place.tokens.revoke("parent", None).expect("it is there");
    assert_eq!(
        gone.iter().map(|it| it.kind).collect::<Vec<_>>(),
        [TokenKind::Token, TokenKind::Token, TokenKind::Login]
    );
    assert!([&parent, &child, &cookie].iter().all(|it| place.pass(it).is_none()));
    assert!(!place.tokens.holds(&pass) && place.pass(&stranger).is_some());
    let problem = place.mint(TokenKind::Token, &named("late"), Some(&pass)).err();
    assert_eq!(problem.map(|it| it.code), Some(ProblemCode::NotAllowed), "a revoked token makes no others");
}

#[test]
fn names_are_unique_and_no_secret_is_on_disk() {
    let place = TokenStoreFixture::new();
    let named = |name: &str| TokenParams { name: Some(name.to_owned()), ..params(AccessScope::Read) };
    let new = place.mint(TokenKind::Token, &named("bot"), None).expect("a token");
    let code = |name: &str| place.mint(TokenKind::Token, &named(name), None).err().map(|it| it.code);
    assert_eq!(code("bot"), Some(ProblemCode::Refused));
    for bad in ["", "../x", "a b", "0123456789ab"] {
        assert_eq!(code(bad), Some(ProblemCode::Usage), "{bad}");
    }
    for entry in fs::read_dir(&place.tokens.dir).expect("ours").flatten() {
        let text = fs::read_to_string(entry.path()).expect("text");
        assert!(!text.contains(&new.secret[6..20]), "{:?}", entry.path());
        let mode = std::os::unix::fs::PermissionsExt::mode(&entry.metadata().expect("ours").permissions());
        assert_eq!(mode & 0o777, 0o600, "{:?}", entry.path());
    }
}

#[test]
fn a_record_with_a_field_of_a_later_version_authenticates_no_client() {
    let place = TokenStoreFixture::new();
    let new = place.mint(TokenKind::Token, &params(AccessScope::Admin), None).expect("a token");
    let path = place.tokens.path(&new.token.id, RECORD);
    let mut record: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).expect("ours")).expect("JSON");
    assert!(place.pass(&new).is_some());
    record["only_on_tuesdays"] = true.into();
    fs::write(&path, record.to_string()).expect("ours");
    assert!(place.pass(&new).is_none());
}

#[test]
fn h3_a_token_that_expired_by_our_clock_authenticates_no_client_and_is_still_listed() {
    let place = TokenStoreFixture::new();
    let short = TokenParams { life: Some(Duration::ZERO), ..params(AccessScope::Admin) };
    let new = place.mint(TokenKind::Token, &short, None).expect("a token");
    assert!(place.pass(&new).is_none());
    let listed = place.tokens.list(None).expect("ours");
    assert!(listed.iter().any(|it| it.id == new.token.id && it.expired));
    let link = place.mint(TokenKind::Link, &short, None).expect("a link");
    let link = TokenSecret::parse(TokenKind::Link, &link.secret).expect("our own");
    let problem = place.tokens.claim(&link, "a browser", "firefox-on-linux").err().expect("refused");
    assert!(problem.what.contains("expired"), "{problem}");
}

#[test]
fn the_owner_of_the_state_directory_can_make_a_token_when_no_other_client_can() {
    let place = TokenStoreFixture::new();
    let admin = place.mint(TokenKind::Token, &params(AccessScope::Admin), None).expect("a token");
    let pass = place.pass(&admin).expect("it is good");
    let json = fs::read(place.tokens.path(&admin.token.id, RECORD)).expect("a record");
    for number in 1..MOST_TOKENS - OWNERS_RESERVE {
        let id = format!("{number:0width$x}", width = secret::SecretHash::ID_CHARS);
        fs::write(place.tokens.path(&id, RECORD), &json).expect("a record");
    }
    let refused =
        place.mint(TokenKind::Token, &params(AccessScope::Read), Some(&pass)).err().expect("no room");
    assert_eq!(refused.code, ProblemCode::Full);
    place.mint(TokenKind::Login, &params(AccessScope::Read), Some(&pass)).err().expect("nor for a browser");
    place.mint(TokenKind::Token, &params(AccessScope::Read), None).expect("room for the owner");
}

#[test]
fn a_login_that_makes_room_takes_along_the_tokens_made_with_it() {
    let place = TokenStoreFixture::new();
    let admin = place.mint(TokenKind::Token, &params(AccessScope::Admin), None).expect("a token");
    let pass = place.pass(&admin).expect("it is good");
    let enter = || place.mint(TokenKind::Login, &params(AccessScope::Admin), Some(&pass)).expect("a browser");
    let first = enter();
    let made = place
        .mint(TokenKind::Token, &params(AccessScope::Read), place.pass(&first).as_ref())
        .expect("a token");
    // The clock is in milliseconds, and the older login is found by it.
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
    let place = TokenStoreFixture::new();
    let ages = TokenParams { life: Some(Duration::from_millis(u64::MAX)), ..params(AccessScope::Read) };
    assert_eq!(place.mint(TokenKind::Token, &ages, None).err().expect("too long").code, ProblemCode::Usage);
}

#[test]
fn logins_are_named_after_their_browsers_and_each_name_is_unique() {
    let place = TokenStoreFixture::new();
    let enter = |browser: &str| {
        let maker = TokenMaker { place: "a browser", pass: None };
        place.tokens.log_in(params(AccessScope::Read), maker, browser).expect("room").token.name
    };
    assert_eq!(enter("firefox-on-linux"), "firefox-on-linux");
    assert_eq!(enter("firefox-on-linux"), "firefox-on-linux-2");
    assert_eq!(enter("safari-on-iphone"), "safari-on-iphone");
    place.tokens.revoke("firefox-on-linux", None).expect("it is there");
    assert_eq!(enter("firefox-on-linux"), "firefox-on-linux", "a free name is used again");
    let long = enter(&"x".repeat(200));
    assert!(SafeName::parse(&long).is_ok() && SafeName::parse(&enter(&long)).is_ok(), "{long}");
}

#[test]
fn a_record_of_another_state_directory_opens_nothing_and_neither_does_an_edited_one() {
    let (here, there) = (TokenStoreFixture::new(), TokenStoreFixture::new());
    let copy = |id: &str| {
        let record = fs::read_to_string(there.tokens.path(id, RECORD)).expect("a record");
        fs::write(here.tokens.path(id, RECORD), record).expect("our own directory");
    };
    for kind in [TokenKind::Token, TokenKind::Login, TokenKind::Link] {
        let stranger = there.mint(kind, &params(AccessScope::Admin), None).expect("a token");
        copy(&stranger.token.id);
        assert!(there.pass(&stranger).is_some() && here.pass(&stranger).is_none(), "{kind:?}");
        let listed = here.tokens.list(None).expect("a list");
        assert!(listed.iter().any(|it| it.id == stranger.token.id && it.void), "{listed:?}");
        if kind == TokenKind::Link {
            let secret = TokenSecret::parse(kind, &stranger.secret).expect("our own");
            assert!(here.tokens.claim(&secret, "a browser", "firefox").is_err());
        }
    }
    let own = here.mint(TokenKind::Token, &params(AccessScope::Read), None).expect("a token");
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
    let place = TokenStoreFixture::new();
    let old = place.mint(TokenKind::Token, &params(AccessScope::Admin), None).expect("a token");
    let key = place.root.join("token.key");
    let mode = fs::metadata(&key).expect("a key").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    fs::remove_file(&key).expect("our own file");
    assert!(place.pass(&old).is_none());
    let home = StateDir::open(place.root.to_path_buf()).expect("the same directory");
    let tokens = TokenStore::open(&home).expect("the same directory");
    assert!(place.pass(&old).is_none(), "a new key is another one");
    assert!(tokens.list(None).expect("a list").iter().all(|it| it.void));
    let new = place.mint(TokenKind::Token, &params(AccessScope::Admin), None).expect("a token");
    assert!(place.pass(&new).is_some());
    fs::write(&key, "short").expect("our own file");
    assert!(TokenStore::open(&home).expect_err("a damaged key").what.contains("damaged"));
}

#[test]
fn of_many_processes_that_open_a_new_state_directory_at_once_all_have_one_key() {
    let place = TokenStoreFixture::new();
    for _ in 0..10 {
        fs::remove_file(place.root.join("token.key")).expect("our own file");
        let home = StateDir::open(place.root.to_path_buf()).expect("the same directory");
        let gate = std::sync::Barrier::new(8);
        let made: Vec<NewToken> = std::thread::scope(|scope| {
            let make = || {
                gate.wait();
                let tokens = TokenStore::open(&home).expect("the same directory");
                let maker = TokenMaker { place: "a test", pass: None };
                tokens.mint(TokenKind::Token, &params(AccessScope::Read), maker).expect("a token")
            };
            let all: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            all.into_iter().map(|it| it.join().expect("no panic")).collect()
        });
        assert!(made.iter().all(|new| place.pass(new).is_some()));
    }
    let left = fs::read_dir(&place.root).expect("ours").flatten();
    assert!(left.map(|it| it.file_name()).all(|name| !name.to_string_lossy().ends_with(".tmp")));
}
